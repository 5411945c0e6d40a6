import random

import pytest

from elmo.probes.wsd_data import Instance, read_keys, write_keys
from elmo.probes.wsd_score import WsdScore, score, score_by_pos


def scorer_java(gold, system):
    """P, R and F1 as `Scorer.java` of the framework has them, line by line."""
    ok = notok = 0.0
    for key in system:
        if key not in gold:
            continue
        local_ok = local_notok = 0
        for answer in system[key]:
            if answer in gold[key]:
                local_ok += 1
            else:
                local_notok += 1
        ok += local_ok / len(system[key])
        notok += local_notok / len(system[key])
    p, r = ok / (ok + notok) if ok + notok else 0.0, ok / len(gold)
    return p, r, 2 * p * r / (p + r) if p + r else 0.0


def test_a_case_by_hand():
    gold = {"1": ("a",), "2": ("b", "c"), "3": ("d",), "4": ("e",)}
    # Right; half right; wrong; not answered. The last one is asked by no one.
    of = score(gold, {"1": ("a",), "2": ("b", "x"), "3": ("x",), "4": (), "9": ("a",)})
    assert of == WsdScore(n_right=1.5, n_answered=3, n_instances=4)
    assert (of.precision, of.recall) == (0.5, 0.375)
    assert of.f1 == pytest.approx(2 * 0.5 * 0.375 / 0.875)


def test_any_of_several_right_senses_is_right():
    assert score({"1": ("a", "b")}, {"1": ("b",)}).f1 == 1


def test_nothing_answered_is_0():
    of = score({"1": ("a",)}, {})
    assert (of.precision, of.recall, of.f1) == (0, 0, 0)


def test_it_is_the_frameworks_scorer_on_files_that_we_write(tmp_path):
    draw = random.Random(1)
    for i in range(20):
        gold = {str(k): tuple(draw.sample("abcd", draw.choice([1, 1, 2]))) for k in range(30)}
        answers = {k: tuple(draw.sample("abcd", draw.choice([0, 1, 1, 3]))) for k in gold}
        write_keys(tmp_path / f"{i}.txt", answers)
        lines = (tmp_path / f"{i}.txt").read_text().splitlines()
        system = {name: set(senses) for name, *senses in map(str.split, lines)}
        of = score(gold, read_keys(tmp_path / f"{i}.txt"))
        assert (of.precision, of.recall, of.f1) == pytest.approx(scorer_java(gold, system))


def test_parts_of_speech_are_scored_alone():
    instances = [
        Instance("1", 0, 1, ("x", "VERB"), ("a",)),
        Instance("2", 0, 1, ("y", "NOUN"), ("b",)),
        Instance("3", 0, 1, ("x", "VERB"), ("c",)),
    ]
    of = score_by_pos(instances, {"1": ("a",), "2": ("x",), "3": ("x",)})
    assert of == {"NOUN": WsdScore(0.0, 1, 1), "VERB": WsdScore(1.0, 2, 2)}
    assert list(of) == ["NOUN", "VERB"]
