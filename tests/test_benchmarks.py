"""Benchmarks run, on next to nothing: what they print is checked when they are used."""

import argparse
import gzip
import importlib
import json
import shutil
import sys
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.pretrain.toy import log_lines, write_toy

from elmo import BiLM, BiLMConfig, CharCnnConfig, LstmConfig, Vocabulary
from elmo.checkpoints.folder import Checkpoint, save_folder
from elmo.config import config_to_dict
from elmo.model.softmax import Softmax
from elmo.pretrain.recipe import read_recipe
from elmo.pretrain.run import pretrain
from elmo.tasks.recipe import read_task_recipe

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
TINY = BiLMConfig(
    char_cnn=CharCnnConfig(char_dim=4, filters=((1, 3), (2, 5)), n_highway=1, dim=6),
    lstm=LstmConfig(n_layers=2, hidden_dim=7, dim=6),
)
CONLLU = "# text = It works\n1\tIt\t_\n2\tworks\t_\n\n1-2\tcannot\t_\n1\tcan\t_\n2\tnot\t_\n"


@pytest.fixture
def model(tmp_path) -> Path:
    bilm = BiLM(TINY)
    bilm.reset_parameters()
    save_folder(Checkpoint(bilm), tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def here(monkeypatch):
    """What is measured is measured in this process, on a machine of known limits."""
    monkeypatch.syspath_prepend(BENCHMARKS)

    def imported(name):
        module = importlib.import_module(name)
        same_process = lambda work, _threads, *given: {**work(*given), "peak_mib": 1}  # noqa: E731
        monkeypatch.setattr(module, "alone", same_process)
        if hasattr(module, "gemm_limits"):
            limits = {"float32": 1e7, "bfloat16": 2e7, "int8": 3e7}
            monkeypatch.setattr(module, "gemm_limits", lambda: dict(limits))
        return module

    return imported


def run(module, monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["a benchmark", *map(str, arguments), "--threads", "1"])
    module.main()


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
def test_the_inference_benchmark_compares_all_ways(here, model, tmp_path, monkeypatch, capsys):
    (tmp_path / "a.conllu").write_text(f"{CONLLU}\n" * 40)
    out = tmp_path / "out.json"
    run(
        here("inference"),
        monkeypatch,
        *(tmp_path / "a.conllu", "--sizes", model, "--out", out, "--repeat", "1"),
    )
    result = json.loads(out.read_text())
    assert (result["n_sentences"], result["n_tokens"]) == (80, 160)
    assert {"hardware", "torch", "commit", "date", "limit_gflops"} <= set(result)
    assert len(result["rows"]) == 3 + 3 * 4
    assert not any("failed" in row for row in result["rows"])
    assert all(row["tokens_per_second"] > 0 < row["percent_of_limit"] for row in result["rows"])
    assert result["rows"][0]["largest_difference_of_ours"] < 1e-5
    assert "int8, one at a time" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
def test_the_training_benchmark_compares_all_ways(here, tmp_path, monkeypatch, capsys):
    (tmp_path / "a.txt").write_text("It works fine .\nWhy not ?\n" * 50)
    training = here("training")
    monkeypatch.setattr(training, "config_of", lambda size: TINY)
    monkeypatch.setattr(training, "compiled_cells", nullcontext)
    for name, value in {"N_ROWS": 3, "N_STEPS": 4, "N_NEGATIVES": 4}.items():
        monkeypatch.setattr(training, name, value)
    out = tmp_path / "out.json"
    run(training, monkeypatch, tmp_path / "a.txt", "--out", out, "--repeat", "1", "--windows", "3")
    result = json.loads(out.read_text())
    assert [row["way"] for row in result["rows"]] == [way for way, *_ in training.WAYS]
    assert not any("failed" in row for row in result["rows"])
    assert all(row["tokens_per_second"] > 0 for row in result["rows"])
    assert "tokens/s" in capsys.readouterr().out


def test_the_growth_benchmark_reads_as_many_tokens_as_asked(here, model, tmp_path, monkeypatch):
    lines = (f"word{i} and word{i + 1}\n" for i in range(60))
    (tmp_path / "a.txt").write_text("".join(lines))
    out = tmp_path / "out.json"
    given = (tmp_path / "a.txt", "--model", model, "--tokens", "9,100", "--cache-tokens", "7")
    run(here("growth"), monkeypatch, *given, "--out", out)
    few, many = json.loads(out.read_text())["rows"]
    assert (few["n_tokens"], many["n_tokens"]) == (9, 102)
    assert many["remembered"] == 7


def test_the_benchmark_of_cached_layers_reads_again_what_was_computed(
    here, model, tmp_path, monkeypatch, capsys
):
    (tmp_path / "a.txt").write_text("It works fine .\nWhy not ?\n" * 2)
    out = tmp_path / "out.json"
    given = (tmp_path / "a.txt", "--encoder", f"elmo:{model}", "--sentences", "1,4", "--out", out)
    run(here("layer_cache"), monkeypatch, *given)
    one, all_ = json.loads(out.read_text())["rows"]
    assert [(row["sentences"], row["tokens"]) for row in (one, all_)] == [(1, 4), (4, 14)]
    for row in (one, all_):
        first, again = row["first"], row["again"]
        assert {"sum", "failed"}.isdisjoint(first) and first["tokens"] == again["tokens"]
        assert row["times_faster"] >= 0 and min(first["own_mib"], again["own_mib"]) > 10
    assert "4 sentences,        14 tokens" in capsys.readouterr().out


def test_the_precision_benchmark_compares_each_layer(here, model, tmp_path, monkeypatch):
    (tmp_path / "a.conllu").write_text(CONLLU)
    out = tmp_path / "out.json"
    monkeypatch.syspath_prepend(BENCHMARKS)
    low_precision = importlib.import_module("low_precision")
    before = torch.get_num_threads()
    run(low_precision, monkeypatch, tmp_path / "a.conllu", "--model", model, "--out", out)
    torch.set_num_threads(before)
    rows = json.loads(out.read_text())["rows"]
    assert len(rows) == 3 * 2 * 3
    assert all(0.9 < row["smallest"] <= row["mean"] <= 1.000001 for row in rows)


def test_work_alone_reports_its_result_its_memory_and_its_failure(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    alone = importlib.import_module("alone").alone
    result = alone(vars, 1, argparse.Namespace(a=1))
    assert result["a"] == 1 and result["peak_mib"] > 10
    assert alone(vars, 1, 3) == {
        "failed": "TypeError: vars() argument must have __dict__ attribute"
    }


def test_the_gpu_benchmark_measures_whatever_device_it_is_given(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(BENCHMARKS)
    gpu = importlib.import_module("gpu")
    monkeypatch.setattr(gpu, "config_of", lambda size: TINY)
    for name, value in {"N_WORDS": 60, "N_NEGATIVES": 20, "N_STEPS": 4, "GEMM": 8}.items():
        monkeypatch.setattr(gpu, name, value)
    settings = {"sentences": None, "n_sentences": 30, "repeat": 1, "steps": 2, "sizes": "small"}
    few = {
        "batch_tokens": "64",
        "rows": "3",
        "dtypes": "float32",
        "what": ["inference", "training"],
    }
    arguments = argparse.Namespace(**settings, **few, profile=None, out=None)
    result = gpu.measure(arguments, torch.device("cpu"))
    assert len(result["rows"]) == 6 + 2
    assert all(row["tokens_per_second"] > 0 for row in result["rows"])
    assert "CudaReader, from text to host" in capsys.readouterr().out
    table = tmp_path / "kernels.txt"
    gpu.Measuring(torch.device("cpu"), 1, table).kernels("a sum", torch.ones(2).sum)
    assert table.read_text().startswith("a sum") and "aten::sum" in table.read_text()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_a_gpu_the_gpu_benchmark_says_so_in_one_line(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    monkeypatch.setattr(sys, "argv", ["gpu.py"])
    with pytest.raises(
        SystemExit, match=r"^gpu\.py measures a GPU, but PyTorch sees no CUDA device"
    ):
        importlib.import_module("gpu").main()


@pytest.fixture
def adaptation(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("adaptation")


def test_biomedical_text_is_read_without_its_labels(adaptation, tmp_path, monkeypatch, capsys):
    with gzip.open(tmp_path / "train.txt.gz", "wt") as file:
        file.write("APC2 O\ncolon B-Disease\ncancer I-Disease\n\n\nIn O\nmice O\n")
    (tmp_path / "dev.txt").write_text("Loss O\n\n")
    (tmp_path / "test.txt").write_text("New O\ngene O\n\nLoss O\n\n")
    out = tmp_path / "out"
    given = ["adaptation.py", "biomedical", str(tmp_path), "--out", str(out)]
    monkeypatch.setattr(sys, "argv", given)
    adaptation.main()
    out = out / "biomedical"  # another domain has another folder
    assert (out / "adapt.txt").read_text() == "APC2 colon cancer\nIn mice\nLoss\n"
    assert (out / "measure.txt").read_text() == "New gene\n"
    said = capsys.readouterr().out
    assert "adapt.txt: 3 sentences, 6 tokens" in said
    assert "1 sentences were in both parts and are not measured on" in said


def test_captions_are_the_sentences_of_pairs_each_once(adaptation, tmp_path):
    def pairs(*sentences):
        keys = ("sentence1", "sentence2")
        return "".join(f"{json.dumps(dict(zip(keys, s, strict=True)))}\n" for s in sentences)

    with gzip.open(tmp_path / "train.jsonl.gz", "wt") as file:
        file.write(pairs(("Two women .", "People sit"), ("Two women .", "They run")))
    (tmp_path / "dev.jsonl").write_text(pairs(("A dog .", "They run"), ("A dog .", "It runs")))
    text = adaptation.write_text("captions", tmp_path, tmp_path)
    assert text.adapt.read_text() == "Two women .\nPeople sit\nThey run\n"
    assert text.measure.read_text() == "A dog .\nIt runs\n"


def test_a_model_is_adapted_and_measured_before_and_after(
    adaptation, tmp_path, monkeypatch, capsys
):
    softmax, bilm = Softmax(6, 6), BiLM(TINY)
    softmax.reset_parameters()
    bilm.reset_parameters()
    vocabulary = Vocabulary(["<S>", "</S>", "<UNK>", "It", "works", "."])
    save_folder(Checkpoint(bilm, vocabulary, softmax), tmp_path / "model")
    for name, text in (("train", "It O\nworks O\n\n" * 40), ("test", "It O\nis O\n\n")):
        with gzip.open(tmp_path / f"{name}.txt.gz", "wt") as file:
            file.write(text)
    (tmp_path / "dev.txt").write_text("It O\nworks O\n\n")
    (tmp_path / "test.txt").write_text("It O\nis O\n\n")
    result = tmp_path / "result.json"
    given = ["biomedical", tmp_path, "--out", tmp_path / "out", "--model", tmp_path / "model"]
    more = ["--result", result, "--set", "training.n_rows=2", "--set", "training.n_steps=3"]
    monkeypatch.setattr(sys, "argv", ["adaptation.py", *map(str, [*given, *more])])
    for _ in range(2):  # the second time all is there
        adaptation.main()
        row = json.loads(result.read_text())["biomedical"]
        before, after = (
            row[when]["forward_lm"] * row[when]["backward_lm"] for when in ("before", "after")
        )
        assert after <= before
    assert capsys.readouterr().out.count("biomedical: after:") == 2
    assert (tmp_path / "out" / "biomedical" / "model" / "pretraining.json").exists()


def test_shapes_and_optimisers_are_compared(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(BENCHMARKS)
    shapes = importlib.import_module("shapes")
    monkeypatch.setattr(shapes, "SHAPES", {"7/6": (7, 6)})
    for name in ("train", "heldout"):
        text = "".join(f"{name} has {i} words .\n" for i in range(30))
        (tmp_path / f"{name}.txt").write_text(text)
    (tmp_path / "r.toml").write_text(
        f"output = 'x'\n[corpus]\ntrain = ['{tmp_path}/train.txt']\n"
        f"heldout = ['{tmp_path}/heldout.txt']\nmin_count = 1\n"
        "[model.char_cnn]\nchar_dim = 4\nfilters = [[1, 3]]\ndim = 6\n"
        "[model.lstm]\nhidden_dim = 7\ndim = 6\n[training]\nn_rows = 2\nn_steps = 3\n"
    )
    given = [str(tmp_path / "r.toml"), str(tmp_path / "runs"), "--minutes", "0.01"]
    monkeypatch.setattr(sys, "argv", ["shapes.py", *given, "--out", str(tmp_path / "out.json")])
    shapes.main()
    runs = json.loads((tmp_path / "out.json").read_text())["runs"]
    assert list(runs) == ["7/6 AdamW", "7/6 Adagrad"]
    for run in runs.values():
        minutes, tokens, forward_lm, backward_lm = run["curve"][-1]
        assert 0 < minutes < 1 and 0 < tokens <= run["tokens"] + 6
        assert [forward_lm, backward_lm] == pytest.approx(run["heldout"], abs=0.01)
    assert "7/6 AdamW: started" in capsys.readouterr().out


def test_the_text_of_both_domains_is_there(adaptation, shared, tmp_path):
    for domain, source, n_sentences in (
        ("biomedical", "bioner/ncbi-disease", (6347, 938)),
        ("captions", "nli/snli-small", (11702, 1279)),
    ):
        text = adaptation.write_text(domain, shared / "datasets" / source, tmp_path)
        assert tuple(len(path.read_text().splitlines()) for path in text) == n_sentences


SENSES = {
    "train": [("The", None), ("bank", "bank%1:17"), ("of", None), ("rivers", "river%1:17")],
    "dev": [("A", None), ("bank", "bank%1:14"), ("``", None), ("sky blue", "sky_blue%3:00")],
}
ROWS = ("1\tIt\tit\tPRON\tPRP", "2\tworks\twork\tVERB\tVBZ")
TAGGED = "".join(row + "\t_" * 5 + "\n" for row in ROWS)


@pytest.fixture
def labelled(tmp_path) -> Path:
    for part in ("train", "dev", "test"):
        (tmp_path / f"a-{part}.conllu").write_text(f"{TAGGED}\n" * 3)
    for part, words in SENSES.items():
        xml, keys = "", ""
        for i, (word, sense) in enumerate(words):
            given = f'lemma="{word.lower().replace(" ", "_")}" pos="NOUN"'
            if sense is None:
                xml += f"<wf {given}>{word}</wf>"
            else:
                xml += f'<instance id="s{i}" {given}>{word}</instance>'
                keys += f"s{i} {sense} another%1\n"
        xml = f'<corpus><text id="d"><sentence id="s">{xml}</sentence></text></corpus>'
        (tmp_path / f"a-{part}.data.xml").write_text(xml)
        (tmp_path / f"a-{part}.gold.key.txt").write_text(keys)
    return tmp_path


def test_probes_of_layers_are_those_of_the_commands(model, labelled, tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(BENCHMARKS)
    (tmp_path / "senses.tsv").write_text("bank\tNOUN\tbank%1:14 x\nsky_blue\tNOUN\tnever%1\n")
    (tmp_path / "v.txt").write_text("bank 1 0\nworks 0 1\n")
    probes = importlib.import_module("probes")
    monkeypatch.setattr(probes, "COLUMNS", ("xpos",))
    monkeypatch.setattr(probes, "METHODS", "mean")
    files = {"--out": tmp_path / "out.json", "--picture": tmp_path / "out.png"}
    given = ["--pos", labelled, "--wsd", labelled, "--senses", tmp_path / "senses.tsv"]
    given += ["--parts", tmp_path / "parts", *(x for pair in files.items() for x in pair)]
    names = [f"elmo:{model}", f"static:{tmp_path}/v.txt"]
    run(probes, monkeypatch, *given, "--encoders", names[0])
    assert "layer 2, nearest mean" in capsys.readouterr().out
    run(probes, monkeypatch, *given, "--encoders", *names)
    assert names[0] not in capsys.readouterr().out, "what was computed is computed again"
    result = json.loads(files["--out"].read_text())
    assert list(result["encoders"]) == names and {"commit", "date"} <= result.keys()
    elmo, static = result["encoders"].values()
    layers = [*(f"layer {i}" for i in range(3)), "mean of layers"]
    assert [row["layer"] for row in elmo["xpos"]["layers"]] == layers
    assert [row["layer"] for row in static["xpos"]["layers"]] == ["layer 0"]
    # Of two words, "bank" was seen, with two senses: one and another, which is right in both parts.
    assert [elmo["wsd"]["rows"][0][name]["n_instances"] for name in ("all", "several")] == [2, 1]
    senses, xpos = probes.panels(result["encoders"])
    assert list(senses["curves"][names[0]]) == [0, 1, 2, None]
    assert set(senses["levels"]) == {"first sense", "most frequent sense"}
    assert xpos["curves"][names[1]].keys() == {0} and "xpos" in xpos["ylabel"]
    assert files["--picture"].stat().st_size > 1000


LOG = """{"step": 5, "train/forward_exp_loss_sampled": 9.0, "train/backward_exp_loss_sampled": 4.0,
 "train/tokens_per_second": 100.0, "train/tokens": 6000}
{"step": 5, "heldout/forward_perplexity_full": 30.0, "heldout/backward_perplexity_full": 30.0}
{"step": 10, "train/forward_exp_loss_sampled": 4.0, "train/backward_exp_loss_sampled": 4.0,
 "train/tokens_per_second": 50.0, "train/tokens": 12000}
{"step": -1, "heldout/forward_perplexity_full": 8.0, "heldout/backward_perplexity_full": 2.0}
{"step": 15, "train/forw"""


def test_curves_of_a_run_are_read_from_its_log(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(BENCHMARKS)
    curves = importlib.import_module("curves")
    (tmp_path / "metrics.jsonl").write_text(LOG.replace(",\n", ","))
    run_ = curves.read_run(tmp_path)
    assert run_["train"]["minutes"] == pytest.approx([1, 3])
    assert run_["train"]["y"] == pytest.approx([np.log(6), np.log(4)])
    assert run_["heldout"]["y"] == pytest.approx([30, 4])
    assert run_["heldout"]["tokens"] == pytest.approx([0.006, 0.012])
    out = tmp_path / "a.png"
    assert run_["heldout"]["end"] == []
    monkeypatch.setattr(sys, "argv", ["curves.py", str(tmp_path), "--out", str(out)])
    curves.main()
    assert out.stat().st_size > 1000 and "0.01 M tokens, 3.0 min, 4.0" in capsys.readouterr().out


def test_curves_of_a_log_of_today_have_what_was_measured_on_the_way_and_at_the_end(
    tmp_path, monkeypatch, capsys
):
    write_toy(tmp_path)
    settings = ["training.n_epochs=2", "validation.every_tokens=300"]
    made = pretrain(read_recipe(tmp_path / "toy.toml", settings))
    monkeypatch.syspath_prepend(BENCHMARKS)
    curves = importlib.import_module("curves")
    run_ = curves.read_run(tmp_path / "model")
    lines = log_lines(tmp_path / "model")
    for what, key in (("train", "train/learning_rate"), ("heldout", "heldout/predictions")):
        tokens = [line["train/tokens"] / 1e6 for line in lines if key in line]
        assert run_[what]["tokens"] == pytest.approx(tokens, rel=0.2) and len(tokens) > 5
    assert run_["heldout"]["end"] == [pytest.approx(made.heldout.average)]
    out = tmp_path / "a.png"
    monkeypatch.setattr(sys, "argv", ["curves.py", str(tmp_path / "model"), "--out", str(out)])
    curves.main()
    assert f", {made.heldout.average:.1f}\n" in capsys.readouterr().out


def test_the_model_card_gets_its_tables_from_results(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    card = tmp_path / "card.md"
    marks = "<!-- perplexity -->\nold\n<!-- end -->\nkept\n<!-- layers -->\n<!-- end -->\n"
    card.write_text(marks)
    row = {"predictions": 2000, "unknown": 30, "5-gram": [50.0, 51.0], "biLM": [40.25, 41.0]}
    for folder in ("default-model", "probes"):
        (tmp_path / folder).mkdir()
    measured = json.dumps({"parts": {"qa": row, "all": row}})
    (tmp_path / "default-model" / "perplexity.json").write_text(measured)
    tags = {
        column: {
            "layers": [{"layer": "layer 0", "test": {"value": share}}],
            "most_frequent_label_of_the_word": {"value": share / 2},
        }
        for column, share in (("upos", 0.882), ("xpos", 0.868))
    }
    scores = {"all": {"f1": 0.7247}, "several": {"f1": 0.5}}
    ways = [("layer 0", "nearest mean"), ("layer 0", "nearest use"), (None, "first sense")]
    senses = [{"layer": layer, "method": method} | scores for layer, method in ways]
    probes = {"elmo": {**tags, "wsd": {"rows": senses}}, "static:v.txt": {}}
    (tmp_path / "probes" / "layers.json").write_text(json.dumps({"encoders": probes}))
    monkeypatch.setattr(
        sys, "argv", ["model_card.py", "--results", str(tmp_path), "--card", str(card)]
    )
    importlib.import_module("model_card").main()
    text = card.read_text()
    assert "| **all** | 2,000 | 1.5% | 50.0 / 51.0 | 40.2 / 41.0 |" in text
    assert "| layer 0 | 88.2 | 86.8 | 72.5 | 50.0 |" in text
    assert "| layer 0, nearest use |  |  | 72.5 | 50.0 |\n| most frequent tag" in text
    assert "tag of the word | 44.1 | 43.4 |  |  |\n| first sense |  |  | 72.5 | 50.0 |" in text
    assert "old" not in text and "\nkept\n" in text


def test_ways_to_combine_directions_are_compared(tmp_path, monkeypatch):
    softmax = Softmax(6, 6)
    softmax.reset_parameters()
    bilm = BiLM(TINY)
    bilm.reset_parameters()
    vocabulary = Vocabulary(["<S>", "</S>", "<UNK>", "It", "works", "."])
    save_folder(Checkpoint(bilm, vocabulary, softmax), tmp_path / "predicts")
    (tmp_path / "a.txt").write_text("It works .\nWhy not ?\n")
    monkeypatch.syspath_prepend(BENCHMARKS)
    combining = importlib.import_module("combining_directions")
    monkeypatch.setattr(combining, "RARE", 4)
    out, text = tmp_path / "out.json", tmp_path / "a.txt"
    before = torch.get_num_threads()
    given = (text, "--counts", text, "--model", tmp_path / "predicts", "--out", out)
    run(combining, monkeypatch, *given)
    torch.set_num_threads(before)
    result = json.loads(out.read_text())
    assert result["tokens"] == 6 and list(result["ways"]) == list(combining.WAYS)
    assert all(0 < row["mrr"] <= 1 < row["perplexity"] for row in result["ways"].values())


@pytest.fixture
def paper(tmp_path, monkeypatch):
    """A caller of the program, whose runs take no time: the second seed is two points above."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    module, runs = map(importlib.import_module, ("paper", "paper_runs"))
    made, asked = [], []

    def results_of(recipe, settings, output, *, begun):
        made.append(str(output))
        asked.append(settings)
        config = read_task_recipe(recipe, settings)
        lines = [json.dumps({"step": step, "dev/f1": 4.0 * step}) for step in (5, 10)]
        weights = {"input": [[0.2, 0.3, 0.5]], "output": [[0.6, 0.4, 0.0]]}
        run = {"seconds": 1.0, "layer_weights": weights}
        added = 10 * (config.encoder == "elmo") - 20 * (config.data.share < 1)
        scores = {
            split: {"seeds": {str(k): {"f1": start + added + 2.0 * (k - 1)} for k in config.seeds}}
            for split, start in (("dev", 60.0), ("test", 50.0))
        }
        results = {
            "recipe": config_to_dict(config),
            "metric": "f1",
            "threads": 3,
            "runs": {str(k): run for k in config.seeds},
            **(scores if "ner" in recipe else {**scores, "test": None}),
        }
        for k in config.seeds:
            (output / f"seed-{k}").mkdir(parents=True, exist_ok=True)
            (output / f"seed-{k}" / "metrics.jsonl").write_text("\n".join(lines))
        (output / "results.json").write_text(json.dumps(results))

    monkeypatch.setattr(runs, "results_of", results_of)

    def run(experiment, *more):
        given = [experiment, str(tmp_path / "runs"), "--tasks", "ner", "srl", *more]
        monkeypatch.setattr(sys, "argv", ["paper.py", *given, "--out", str(tmp_path / "out")])
        module.main()
        return json.loads((tmp_path / "out" / f"{experiment}.json").read_text())

    return run, made, asked


def test_table_1_is_of_test_where_there_is_one_and_the_others_are_of_dev(paper, tmp_path, capsys):
    run, *_ = paper
    tasks = run("table1")["tasks"]
    assert [tasks[task]["split"] for task in ("ner", "srl")] == ["test", "dev"]
    row = tasks["ner"]["rows"]["+ ELMo"]
    assert (row["mean"], row["scores"]) == (62.0, {"1": 60.0, "2": 62.0, "3": 64.0})
    assert row["error_reduction"] == pytest.approx(100 * 10 / 48) and row["paper"] == 92.22
    assert row["circumstances"]["hardware"].endswith(", 3 threads")
    assert "ner    + ELMo" in (told := capsys.readouterr().out)
    assert "test 62.00 ± 2.00   20.8 % fewer errors   paper 92.22" in told
    result = run("table2")
    assert {of["split"] for of in result["tasks"].values()} == {"dev"}
    assert result["tasks"]["srl"]["rows"]["all layers, λ = 1"]["mean"] == 72.0
    assert (tmp_path / "out" / "table2.png").exists()


def test_variants_that_are_a_recipe_s_own_share_its_runs_and_can_be_read_alone(
    paper, tmp_path, capsys
):
    run, made, _ = paper
    run("table1")
    before = set(made)
    assert list(run("table3", "--read")["tasks"]["ner"]["rows"]) == ["input only"]
    assert "ner, encoder=elmo where=output: no run in" in capsys.readouterr().out
    assert set(made) == before
    run("table3")  # ELMo enters at the input in both recipes
    assert set(made) - before == {
        str(tmp_path / "runs" / task / f"encoder-elmo_where-{where}")
        for task in ("ner", "srl")
        for where in ("both", "output")
    }
    with pytest.raises(SystemExit):
        run("gamma", "--read", "--set", "data.share=0.5")
    assert "no run of gamma is in" in capsys.readouterr().err


def test_what_runs_came_to_outlives_their_folder_while_the_recipe_stays(paper, tmp_path, capsys):
    run, made, _ = paper
    table = run("table1", "--set", "data.share=0.5")
    assert len(made) == 4
    shutil.rmtree(tmp_path / "runs")
    assert run("table1", "--set", "data.share=0.5") == table
    assert len(made) == 4
    kept = tmp_path / "out" / "runs.json"
    before = kept.read_text()
    kept.write_text(before.replace('"learning_rate"', '"other"', 1))  # of one of the four
    assert run("table1", "--set", "data.share=0.5") == table
    assert len(made) == 5 and kept.read_text() == before
    other = tmp_path / "runs" / Path(made[-1]).relative_to(tmp_path / "runs") / "results.json"
    results = json.loads(other.read_text())
    results["recipe"]["where"] = "output"
    other.write_text(json.dumps(results))
    assert run("table1", "--set", "data.share=0.5") == table
    assert "the runs there are by another recipe, and left out" in capsys.readouterr().out


def test_runs_of_some_seeds_can_be_read_and_the_others_are_made_when_asked_for(paper):
    run, made, _ = paper
    few = run("table1", "--set", "seeds=[1,2]")["tasks"]["ner"]["rows"]["+ ELMo"]
    assert few["scores"] == {"1": 60.0, "2": 62.0}
    count = len(made)
    assert run("table1", "--read")["tasks"]["ner"]["rows"]["+ ELMo"] == few
    assert len(made) == count
    row = run("table1")["tasks"]["ner"]["rows"]["+ ELMo"]
    assert row["scores"] == {"1": 60.0, "2": 62.0, "3": 64.0} and len(made) == 2 * count
    run("table1", "--set", "seeds=[1,2]")
    assert len(made) == 2 * count


def test_encoders_stand_beside_word_vectors_of_the_same_text(paper, tmp_path, capsys):
    run, made, asked = paper
    with pytest.raises(SystemExit):
        run("encoders")
    assert "give --static FILE" in capsys.readouterr().err
    run("table1")
    shared = set(made)
    rows = run("encoders", "--static", "here/vectors.bin")["tasks"]["ner"]["rows"]
    assert list(rows) == ["baseline", "+ word vectors", "+ ELMo", "+ MiniLM"]
    assert ["encoder=static:here/vectors.bin"] in asked
    assert shared < set(made) and len(set(made)) == 2 * len(shared)
    assert "here/" not in (tmp_path / "out" / "runs.json").read_text()


def test_figures_are_drawn_and_share_the_runs_of_tables(paper, tmp_path):
    run, made, _ = paper
    run("table1")
    before = set(made)
    rows = run("figure1")["tasks"]["ner"]["rows"]
    assert before < set(made)
    # Errors are fewer than those of the baseline with as much data.
    fewer = [row["error_reduction"] for row in rows.values()]
    few_data, all_data = 100 * 10 / (100 - 42), 100 * 10 / (100 - 62)
    assert fewer == pytest.approx([0, few_data, 0, few_data, 0, all_data])
    # As many updates for each share of the data.
    kept = json.loads((tmp_path / "out" / "runs.json").read_text())["runs"]["wikigold-cpu"]
    assert {
        (of["recipe"]["data"]["share"], of["recipe"]["training"]["n_epochs"])
        for of in kept.values()
    } == {(1.0, 30), (0.1, 300), (0.01, 3000)}
    # Runs of whose learning no log was kept have no curve, but their scores count.
    told = json.loads((tmp_path / "out" / "runs.json").read_text())
    for places in told["runs"].values():
        for of in places.values():
            of["curves"] = {}
    (tmp_path / "out" / "runs.json").write_text(json.dumps(told))
    shutil.rmtree(tmp_path / "runs")
    assert run("figure1", "--read")["tasks"]["ner"]["rows"] == rows
    run("figure2")
    assert all((tmp_path / "out" / f"figure{k}.png").exists() for k in (1, 2))


def test_clusters_of_usages_are_compared_with_senses(here, model, tmp_path, monkeypatch, capsys):
    lines = [
        {"word": "bank", "tokens": [*start.split(), "bank", *end.split()], "index": 2, "sense": of}
        for start, end, of in (
            ("on the", "of the river", "shore"),
            ("near the", "where fish swim", "shore"),
            ("by the", "with mud and reed", "shore"),
            ("at the", "for a loan", "money"),
            ("from my", "some money came", "money"),
            ("to a", "with my savings", "money"),
        )
    ]
    lines.append({"word": "alone", "tokens": ["alone"], "index": 0, "sense": "one"})
    path = tmp_path / "uses.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    module = importlib.import_module("sense_clusters")
    given = ["--encoders", f"elmo:{model}", "--out", tmp_path / "c.json"]
    run(module, monkeypatch, path, *given)
    result = json.loads((tmp_path / "c.json").read_text())
    assert (result["n_words"], result["n_usages"]) == (1, 6)  # a word of one sense is left out
    places = [(row["layer"], row["context"]) for row in result["rows"]]
    layers = ("layer 0", "layer 1", "layer 2", "the mean of layers")
    assert places == [(layer, context) for layer in layers for context in (0.0, 8.0)]
    assert result["rows"][0]["as_many_as_senses"] == 0  # one vector, one cluster
    assert all(-100 <= row["as_many_as_senses"] <= 100 for row in result["rows"])
    assert "layer 2  8.0" in capsys.readouterr().out


def test_an_index_of_usages_is_measured_and_its_senses_compared(
    here, model, tmp_path, monkeypatch, capsys
):
    (tmp_path / "text.txt").write_text("the bank lends money .\nwe sat by the river bank .\n" * 4)
    for part in ("train", "test"):
        with gzip.open(tmp_path / f"{part}.jsonl.gz", "wt") as file:
            for sense, tokens in (("m", ["bank", "money"]), ("r", ["river", "bank"])):
                place = tokens.index("bank")
                word = {"index": place, "lemma": "bank", "pos": "NOUN", "sense": sense}
                file.write(json.dumps({"tokens": tokens, "senses": [word]}) + "\n")
    given = ["--tokens", 30, "--encoder", f"elmo:{model}", "--layers", "0,2"]
    given += ["--senses", tmp_path, "--out", tmp_path / "n.json"]
    run(here("neighbours"), monkeypatch, tmp_path / "text.txt", *given)
    result = json.loads((tmp_path / "n.json").read_text())
    assert result["index"]["build"]["tokens"] == 36 and result["index"]["ask"]["n_queries"] == 20
    layers = result["senses"]["layers"]
    assert layers["layer 2"]["nearest"] == 100 and layers["layer 2"]["random_of_several"] == 50
    assert "36 tokens" in capsys.readouterr().out
