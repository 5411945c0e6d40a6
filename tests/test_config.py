import copy
import dataclasses
import json
import re

import pytest
from hypothesis import given
from tests.models import config_of, shapes

from elmo import BiLMConfig
from elmo.config import (
    config_from_dict,
    config_from_options,
    config_to_dict,
    config_to_options,
    read_json,
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


@pytest.fixture
def options():
    return copy.deepcopy(OPTIONS)


def test_the_released_options_are_the_defaults(options):
    assert config_from_options(options) == BiLMConfig(dropout=0.0)


@pytest.mark.parametrize("n_characters", [261, 262])
def test_training_and_inference_numbers_of_characters_mean_the_same(options, n_characters):
    options["char_cnn"]["n_characters"] = n_characters
    assert config_from_options(options) == BiLMConfig(dropout=0.0)


@given(shape=shapes())
def test_our_config_survives_its_own_form(shape):
    config = config_of(shape)
    plain = json.loads(json.dumps(config_to_dict(config)))
    assert config_from_dict(BiLMConfig, plain) == config


@given(shape=shapes())
def test_the_official_form_says_what_the_original_reads(shape):
    config = config_of(shape)
    options = json.loads(json.dumps(config_to_options(config)))
    lstm, cnn = config.lstm, config.char_cnn
    # The original projects exactly where sizes differ; options cannot say otherwise.
    assert config_from_options(options) == dataclasses.replace(
        config,
        lstm=dataclasses.replace(lstm, projection=lstm.dim != lstm.hidden_dim),
        char_cnn=dataclasses.replace(cnn, projection=cnn.dim != cnn.n_filters),
    )


def test_what_the_options_leave_out_is_absent_not_defaulted(options):
    for key in ("cell_clip", "proj_clip", "use_skip_connections"):
        del options["lstm"][key]
    del options["char_cnn"]["n_highway"]
    config = config_from_options(options)
    assert config.lstm.cell_clip is None and config.lstm.projection_clip is None
    assert not config.lstm.skip_connections and config.char_cnn.n_highway == 0


@pytest.mark.parametrize(
    ("table", "key", "value", "said"),
    [
        ("char_cnn", "n_characters", 300, '"n_characters" is 300, but bytes and specials make'),
        ("char_cnn", "filters", [[1, 2, 3]], '"filters" is [[1, 2, 3]], but expected'),
        ("char_cnn", "filters", [], "filters is empty"),
        ("char_cnn", "filters", [[99, 4]], "filters has (99, 4)"),
        ("char_cnn", "activation", "selu", "activation is 'selu', but the original knows"),
        ("lstm", "dim", "large", "\"dim\" in lstm is 'large', but expected int"),
        ("lstm", "cell_clip", -1, "cell_clip is -1"),
    ],
)
def test_contradictory_options_are_refused(options, table, key, value, said):
    options[table][key] = value
    with pytest.raises(ValueError, match=re.escape(said)):
        config_from_options(options, "a/options.json")


@pytest.mark.parametrize(("table", "key"), [("lstm", "dim"), ("char_cnn", "filters")])
def test_an_absent_option_is_named(options, table, key):
    del options[table][key]
    with pytest.raises(ValueError, match=f'a/options.json: "{key}" is missing in {table}'):
        config_from_options(options, "a/options.json")


def test_options_of_a_word_model_are_refused(options):
    del options["char_cnn"]
    with pytest.raises(ValueError, match="only models over characters"):
        config_from_options(options)


def test_an_unknown_setting_suggests_the_nearest():
    with pytest.raises(
        ValueError, match=re.escape('c.json: unknown setting "dropuot". Did you mean "dropout"?')
    ):
        config_from_dict(BiLMConfig, {"dropuot": 0.1}, "c.json")


def test_what_is_no_json_object_is_refused(tmp_path):
    path = tmp_path / "c.json"
    for content, said in (("{", "is not a JSON file"), ("[1]", "holds list")):
        path.write_text(content)
        with pytest.raises(ValueError, match=said):
            read_json(path)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        read_json(tmp_path / "no.json")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"char_cnn": {"dim": 4}, "lstm": {"dim": 5}}, "char_cnn.dim is 4 but lstm.dim is 5"),
        ({"dropout": 1.5}, "dropout is 1.5, but it is a probability"),
        ({"lstm": {"projection": False}}, "there is no projection"),
        ({"char_cnn": {"n_highway": -1}}, "n_highway is -1"),
    ],
)
def test_configs_that_cannot_be_are_refused(values, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        config_from_dict(BiLMConfig, values)
