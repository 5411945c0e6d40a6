import copy
import dataclasses
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.models import config_of, shapes

from elmo import BiLMConfig
from elmo.config import (
    CharCnnConfig,
    LstmConfig,
    config_from_dict,
    config_from_options,
    config_to_dict,
    config_to_options,
    read_json_object,
    suggest,
)

OPTIONS = {
    "lstm": {
        "use_skip_connections": True,
        "projection_dim": 512,
        "cell_clip": 3,
        "proj_clip": 3,
        "dim": 4096,
        "n_layers": 2,
    },
    "char_cnn": {
        "activation": "relu",
        "filters": [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]],
        "n_highway": 2,
        "embedding": {"dim": 16},
        "n_characters": 262,
        "max_characters_per_token": 50,
    },
}
RELEASED = BiLMConfig(dropout=0.0)
WHERE = "a/options.json"


@pytest.fixture
def options():
    return copy.deepcopy(OPTIONS)


def refused(options):
    """The error of options that are refused: one line that names the file once, and first."""
    with pytest.raises(ValueError) as error:
        config_from_options(options, WHERE)
    said = str(error.value)
    assert said.startswith(f"{WHERE}: ") and said.count(WHERE) == 1 and "\n" not in said
    return said


def test_the_released_options_are_the_defaults(options):
    assert config_from_options(options) == RELEASED
    assert RELEASED.n_layers == 3 and RELEASED.dim == 1024
    assert RELEASED.char_cnn.n_filters == 2048


@pytest.mark.parametrize("n_characters", [261, 262, None])
def test_training_and_inference_numbers_of_characters_mean_the_same(options, n_characters):
    options["char_cnn"]["n_characters"] = n_characters
    if n_characters is None:
        del options["char_cnn"]["n_characters"]
    assert config_from_options(options) == RELEASED


def test_settings_of_training_are_passed_over(options):
    options |= {"bidirectional": True, "dropout": 0.1, "n_epochs": 10, "n_tokens_vocab": 793471}
    options |= {"all_clip_norm_val": 10.0, "unroll_steps": 20, "n_negative_samples_batch": 8192}
    assert config_from_options(options) == dataclasses.replace(RELEASED, dropout=0.1)


@given(shape=shapes(), dropout=st.floats(0, 0.9))
def test_our_config_survives_its_own_form(shape, dropout):
    config = dataclasses.replace(config_of(shape), dropout=dropout)
    plain = json.loads(json.dumps(config_to_dict(config)))
    assert config_from_dict(BiLMConfig, plain) == config


@given(shape=shapes(), dropout=st.floats(0, 0.9), max_chars=st.integers(4, 60))
def test_the_official_form_says_what_the_original_reads(shape, dropout, max_chars):
    config = config_of(shape)
    cnn = dataclasses.replace(config.char_cnn, max_chars=max_chars)
    config = dataclasses.replace(config, char_cnn=cnn, dropout=dropout)
    lstm = config.lstm
    options = json.loads(json.dumps(config_to_options(config)))
    assert options["char_cnn"]["n_characters"] == 262
    assert options["char_cnn"]["filters"] == [list(pair) for pair in cnn.filters]
    assert options["lstm"]["dim"] == lstm.hidden_dim
    assert options["lstm"]["projection_dim"] == lstm.dim
    # The original projects exactly where sizes differ; options cannot say otherwise.
    again = config_from_options(options)
    assert again == dataclasses.replace(
        config,
        lstm=dataclasses.replace(lstm, projection=lstm.dim != lstm.hidden_dim),
        char_cnn=dataclasses.replace(cnn, projection=cnn.dim != cnn.n_filters),
    )
    assert config_to_options(again) == options


def test_what_the_options_leave_out_is_absent_not_defaulted(options):
    for key in ("cell_clip", "proj_clip", "use_skip_connections", "n_layers"):
        del options["lstm"][key]
    del options["char_cnn"]["n_highway"]
    config = config_from_options(options)
    assert config.lstm.cell_clip is None and config.lstm.projection_clip is None
    assert not config.lstm.skip_connections and config.char_cnn.n_highway == 0
    assert config.lstm.n_layers == 1 and config.dropout == 0


@pytest.mark.parametrize("nothing", [None, 0])
def test_a_clip_of_null_or_0_is_none(options, nothing):
    options["lstm"] |= {"cell_clip": nothing, "proj_clip": nothing}
    lstm = config_from_options(options).lstm
    assert lstm.cell_clip is None and lstm.projection_clip is None


def test_it_projects_exactly_where_sizes_differ(options):
    options["lstm"]["dim"] = 512
    options["char_cnn"]["filters"] = [[1, 500], [2, 12]]
    config = config_from_options(options)
    assert not config.lstm.projection and not config.char_cnn.projection
    options["lstm"]["dim"] = 511
    options["char_cnn"]["filters"] = [[1, 500], [2, 13]]
    config = config_from_options(options)
    assert config.lstm.projection and config.char_cnn.projection


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("char_cnn n_characters", 300, '"n_characters" is 300, but bytes and specials make'),
        ("char_cnn n_characters", "262", "\"n_characters\" in char_cnn is '262', but expected int"),
        ("char_cnn filters", [[1, 2, 3]], '"filters" is [[1, 2, 3]], but expected'),
        ("char_cnn filters", [[True, 3]], '"filters" is [[True, 3]], but expected'),
        ("char_cnn filters", None, '"filters" in char_cnn is None, but expected list'),
        ("char_cnn filters", [], "filters is empty"),
        ("char_cnn filters", [[99, 4]], "filters has (99, 4)"),
        ("char_cnn filters", [[0, 4]], "filters has (0, 4)"),
        ("char_cnn filters", [[3, 0]], "filters has (3, 0)"),
        ("char_cnn activation", "selu", "activation is 'selu', but the original knows"),
        ("char_cnn activation", None, '"activation" in char_cnn is None, but expected str'),
        ("char_cnn n_highway", -1, "n_highway is -1"),
        ("char_cnn n_highway", "2", "\"n_highway\" in char_cnn is '2', but expected int"),
        ("char_cnn max_characters_per_token", 2, "max_chars is 2"),
        # Contradictory: the widest filter is 7 characters wide.
        ("char_cnn max_characters_per_token", 6, "filters has (7, 1024): a width is 1 to 6"),
        ("char_cnn embedding", 16, '"embedding" in char_cnn is 16, but expected dict'),
        ("lstm", None, '"lstm" in the options is None, but expected dict'),
        ("lstm dim", "large", "\"dim\" in lstm is 'large', but expected int"),
        ("lstm dim", 0, "hidden_dim is 0"),
        ("lstm n_layers", 0, "n_layers is 0"),
        ("lstm n_layers", True, '"n_layers" in lstm is True, but expected int'),
        ("lstm projection_dim", 512.0, '"projection_dim" in lstm is 512.0, but expected int'),
        ("lstm cell_clip", -1, "cell_clip is -1"),
        ("lstm cell_clip", float("nan"), "cell_clip is nan"),
        ("lstm proj_clip", float("inf"), "projection_clip is inf"),
        ("lstm proj_clip", True, '"proj_clip" in lstm is True, but expected int or float'),
        ("lstm use_skip_connections", 1, '"use_skip_connections" in lstm is 1, but expected bool'),
        ("dropout", "much", "\"dropout\" in the options is 'much', but expected int or float"),
        ("dropout", 1.0, "dropout is 1.0, but it is a probability"),
        ("bidirectional", False, '"bidirectional" is false, but ELMo needs both directions'),
    ],
)
def test_contradictory_options_are_refused(options, path, value, said):
    *tables, key = path.split()
    table = options[tables[0]] if tables else options
    table[key] = value
    assert said in refused(options)


@pytest.mark.parametrize(
    ("table", "key"),
    [
        ("lstm", "dim"),
        ("lstm", "projection_dim"),
        ("char_cnn", "filters"),
        ("char_cnn", "activation"),
        ("char_cnn", "max_characters_per_token"),
        ("char_cnn", "embedding"),
    ],
)
def test_an_absent_option_is_named(options, table, key):
    del options[table][key]
    assert f'"{key}" is missing in {table}' in refused(options)


def test_options_without_a_size_of_character_embeddings_are_refused(options):
    options["char_cnn"]["embedding"] = {}
    assert '"dim" is missing in char_cnn.embedding' in refused(options)


def test_options_of_a_word_model_are_refused(options):
    del options["char_cnn"]
    assert "only models over characters" in refused(options)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"dropuot": 0.1}, 'c.json: unknown setting "dropuot". Did you mean "dropout"?'),
        ({"lstm": {"n_layer": 3}}, 'unknown setting "n_layer". Did you mean "n_layers"?'),
        ({"xyz": 3}, 'c.json: unknown setting "xyz". Known: char_cnn, lstm, dropout.'),
    ],
)
def test_an_unknown_setting_suggests_the_nearest(values, said):
    with pytest.raises(ValueError, match=re.escape(said)) as error:
        config_from_dict(BiLMConfig, values, "c.json")
    assert str(error.value).startswith("c.json: ") and str(error.value).count("c.json") == 1


def test_a_suggestion_is_the_nearest_name_or_all_or_nothing():
    assert suggest("colour", ["color", "size"]) == ' Did you mean "color"?'
    assert suggest("xyz", ["color", "size"]) == " Known: color, size."
    assert suggest("xyz", []) == ""


@dataclasses.dataclass(frozen=True)
class Required:
    name: str
    numbers: tuple[int, ...] = ()
    clip: float | None = None


def test_values_become_what_the_setting_is():
    made = config_from_dict(Required, {"name": "a", "numbers": [1, 2], "clip": 3})
    assert made == Required("a", (1, 2), 3.0) and type(made.clip) is float
    assert config_from_dict(Required, {"name": "a", "clip": None}).clip is None


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, 'setting "name" is missing'),
        ({"name": 3}, '"name" is 3, but expected a string'),
        (
            {"name": "a", "numbers": 1},
            '"numbers" is 1, but expected a list of whole numbers, as [1, 2]',
        ),
        ({"name": "a", "numbers": ["1"]}, "\"numbers\" is '1', but expected a whole number"),
        ({"name": "a", "numbers": [True]}, '"numbers" is True, but expected a whole number'),
        ({"name": "a", "clip": "3"}, "\"clip\" is '3', but expected a number"),
    ],
)
def test_values_of_another_type_are_refused(values, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        config_from_dict(Required, values)


@pytest.mark.parametrize("values", [None, [1], "lstm"])
def test_what_is_no_table_of_settings_is_refused(values):
    said = f"expected a table of settings, but found {values!r}"
    with pytest.raises(ValueError, match=f"^{re.escape(f'c.json: {said}')}$"):
        config_from_dict(BiLMConfig, values, "c.json")
    with pytest.raises(ValueError, match=f"^{re.escape(f'c.json: [lstm]: {said}')}$"):
        config_from_dict(BiLMConfig, {"lstm": values}, "c.json")


def test_what_is_no_json_object_is_refused(tmp_path):
    path = tmp_path / "c.json"
    for content, said in ((b"{", "is not a JSON file"), (b"[1]", "holds list"), (b"\xff", "JSON")):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=said) as error:
            read_json_object(path)
        assert str(error.value).startswith(str(path)) and "\n" not in str(error.value)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        read_json_object(tmp_path / "no.json")
    path.write_text('{"é": 1}', encoding="utf-8")
    assert read_json_object(path) == {"é": 1}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"char_cnn": {"dim": 4}, "lstm": {"dim": 5}}, "char_cnn.dim is 4 but lstm.dim is 5"),
        ({"dropout": 1.5}, "dropout is 1.5, but it is a probability"),
        ({"dropout": -0.1}, "dropout is -0.1, but it is a probability"),
        ({"dropout": float("nan")}, "dropout is nan, but it is a probability"),
        ({"lstm": {"projection": False}}, "dim is 512 but hidden_dim is 4096"),
        ({"char_cnn": {"projection": False}}, "dim is 512 but there are 2048 filters"),
        ({"char_cnn": {"n_highway": -1}}, "n_highway is -1"),
        ({"char_cnn": {"char_dim": 0}}, "char_dim is 0, but it must be at least 1"),
    ],
)
def test_configs_that_cannot_be_are_refused(values, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        config_from_dict(BiLMConfig, values)


def test_a_config_cannot_be_changed_but_compared():
    assert CharCnnConfig() == CharCnnConfig() and hash(LstmConfig()) == hash(LstmConfig())
    with pytest.raises(dataclasses.FrozenInstanceError):
        LstmConfig().dim = 3
