import gzip
import re

import pytest

from elmo.probes.wsd_data import (
    Instance,
    WsdSentence,
    find_keys,
    read_inventory,
    read_keys,
    read_set,
    read_wsd,
    write_keys,
)

XML = """<?xml version="1.0" encoding="UTF-8" ?>
<corpus lang="en" source="x"><text id="d0">
<sentence id="d0.s0">
<wf lemma="``" pos=".">``</wf>
<instance id="d0.s0.t0" lemma="Time" pos="NOUN">Time</instance>
<instance id="d0.s0.t1" lemma="stand still" pos="VERB">stands  still</instance>
<wf lemma="." pos=".">.</wf>
</sentence>
<sentence id="d0.s1"><wf lemma="yes" pos="X">Yes</wf></sentence>
<sentence id="d0.s2"><instance id="d0.s2.t0" lemma="go" pos="VERB">Go</instance></sentence>
</text></corpus>
"""
KEYS = "d0.s0.t0 time%1 time%2\nd0.s0.t1 stand%1\n\nd0.s2.t0 go%1\n"


@pytest.fixture
def write(tmp_path):
    def write(text, name="a.data.xml"):
        (tmp_path / name).write_text(text, encoding="utf-8")
        return tmp_path / name

    return write


def test_a_set_is_read_with_its_senses_and_tokens_of_their_own(write):
    path = write(XML)
    write(KEYS, "a.gold.key.txt")
    time = Instance("d0.s0.t0", 1, 2, ("time", "NOUN"), ("time%1", "time%2"))
    still = Instance("d0.s0.t1", 2, 4, ("stand_still", "VERB"), ("stand%1",))
    go = Instance("d0.s2.t0", 0, 1, ("go", "VERB"), ("go%1",))
    assert read_set(path) == [
        WsdSentence(('"', "Time", "stands", "still", "."), (time, still)),
        WsdSentence(("Yes",), ()),
        WsdSentence(("Go",), (go,)),
    ]


def test_without_keys_instances_have_no_senses(write):
    assert [i.senses for s in read_wsd(write(XML)) for i in s.instances] == [(), (), ()]


def test_keys_are_found_beside_compressed_or_not(tmp_path, write):
    packed = tmp_path / "a.data.xml.gz"
    packed.write_bytes(gzip.compress(XML.encode()))
    with pytest.raises(FileNotFoundError, match=r"a\.gold\.key\.txt does not exist: name the file"):
        find_keys(packed)
    (tmp_path / "a.gold.key.txt.gz").write_bytes(gzip.compress(KEYS.encode()))
    assert find_keys(packed) == tmp_path / "a.gold.key.txt.gz"
    assert read_set(packed) == read_set(write(XML))
    with pytest.raises(FileNotFoundError, match=r"does not end in \.data\.xml, so its keys"):
        find_keys(tmp_path / "b.xml")


def test_keys_are_written_as_they_are_read_and_none_for_no_answer(tmp_path):
    write_keys(tmp_path / "k.txt", {"d0.s0.t0": ("a%1", "a%2"), "d0.s0.t1": (), "d1": ("b%1",)})
    assert (tmp_path / "k.txt").read_text() == "d0.s0.t0 a%1 a%2\nd1 b%1\n"
    assert read_keys(tmp_path / "k.txt") == {"d0.s0.t0": ("a%1", "a%2"), "d1": ("b%1",)}


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"d0.s0.t0": ("a",), "d0.s2.t0": ("a",)}, "1 instance (d0.s0.t1) without a key"),
        ({}, "3 instances (d0.s0.t0, d0.s0.t1, d0.s2.t0) without a key"),
        (
            {f"d0.{x}": ("a",) for x in ("s0.t0", "s0.t1", "s2.t0", "s9.t1", "s9.t2")},
            "2 keys (d0.s9.t1, d0.s9.t2) without an instance: are the keys those of this file?",
        ),
    ],
)
def test_keys_that_do_not_match_are_named(write, keys, message):
    path = write(XML)
    with pytest.raises(ValueError, match=re.escape(f"{path}: {message}")):
        read_wsd(path, keys)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('id="d0.s2.t0"', 'id="d0.s0.t0"', "two instances have the id d0.s0.t0"),
        (">Go<", "> <", "instance d0.s2.t0 has no text"),
        ('lemma="go"', "", "instance d0.s2.t0 has no lemma"),
        ('id="d0.s2.t0"', "", "the instance 'Go' has no id"),
        ("</corpus>", "", "is no XML"),
        ("instance", "wf", "has no instance elements"),
    ],
)
def test_broken_xml_is_refused(write, old, new, message):
    path = write(XML.replace(old, new))
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        read_wsd(path)
    assert str(path) in str(error.value)


def test_a_file_that_is_not_what_its_name_says_is_refused(write, tmp_path):
    with pytest.raises(ValueError, match="damaged or not of the kind its name says"):
        read_wsd(write(XML, "a.data.xml.gz"))
    with pytest.raises(FileNotFoundError, match="does not exist"):
        read_wsd(tmp_path / "no.xml")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        read_wsd(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a s\nb\n", "line 2: b has no sense behind it"),
        ("a s\n\na t\n", "line 3: a has a line before this one already"),
        ("\n", "has no keys"),
    ],
)
def test_broken_keys_are_refused(write, text, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        read_keys(write(text, "k.txt"))


def test_an_inventory_has_senses_in_order(write):
    path = write("bank\tNOUN\tb%1 b%2\nStand Still\tVERB\ts%1\n", "senses.tsv")
    assert read_inventory(path) == {
        ("bank", "NOUN"): ("b%1", "b%2"),
        ("stand_still", "VERB"): ("s%1",),
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\tNOUN\ts\nb\ts\n", "line 2: 'b\\ts' is not lemma, part of speech and senses"),
        ("a\tNOUN\t \n", "line 1: 'a\\tNOUN\\t ' is not lemma"),
        ("a\tNOUN\ts\nA\tNOUN\tt\n", "line 2: a NOUN has a line before"),
        ("", "has no senses"),
    ],
)
def test_a_broken_inventory_is_refused(write, text, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        read_inventory(write(text, "senses.tsv"))


def test_semcor_has_the_counts_of_its_readme(shared):
    sentences = read_set(shared / "datasets/wsd/semcor/semcor-dev.data.xml.gz")
    assert len(sentences) == 2249
    assert sum(len(s.instances) for s in sentences) == 19785
