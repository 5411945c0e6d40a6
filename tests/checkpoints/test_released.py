"""The table of published weights."""

from urllib.parse import urlsplit

import pytest

from elmo.checkpoints.released import RELEASED, find_released


def test_every_model_has_two_secure_addresses_of_its_own():
    addresses = [
        address for model in RELEASED.values() for address in (model.options_url, model.weights_url)
    ]
    assert len(addresses) == 2 * len(RELEASED) == len(set(addresses))
    for address in addresses:
        assert urlsplit(address).scheme == "https"
        assert not urlsplit(address).query


def test_options_are_json_and_weights_are_hdf5():
    assert all(model.options_url.endswith(".json") for model in RELEASED.values())
    assert all(model.weights_url.endswith(".hdf5") for model in RELEASED.values())


def test_no_two_files_share_a_path_so_that_one_mirror_can_hold_them_all():
    paths = [
        urlsplit(address).path
        for model in RELEASED.values()
        for address in (model.options_url, model.weights_url)
    ]
    assert len(paths) == len(set(paths))


def test_a_model_is_listed_under_its_own_name():
    assert all(find_released(name).name == name for name in RELEASED)


def test_the_english_models_are_where_the_official_page_says():
    assert find_released("original-5.5b").weights_url == (
        "https://s3-us-west-2.amazonaws.com/allennlp/models/elmo/2x4096_512_2048cnn_2xhighway_5.5B/"
        "elmo_2x4096_512_2048cnn_2xhighway_5.5B_weights.hdf5"
    )
    assert find_released("small").options_url == (
        "https://s3-us-west-2.amazonaws.com/allennlp/models/elmo/2x1024_128_2048cnn_1xhighway/"
        "elmo_2x1024_128_2048cnn_1xhighway_options.json"
    )


def test_a_published_digest_has_the_length_of_its_algorithm():
    for model in RELEASED.values():
        for said in filter(None, (model.options_digest, model.weights_digest)):
            algorithm, _, digest = said.partition(":")
            assert len(digest) == {"sha1": 40, "sha256": 64}[algorithm]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("orignal", "original"), ("Original-5.5B", "original-5.5b"), ("portugese", "portuguese")],
)
def test_a_misspelt_name_is_answered_with_the_nearest_one(typed, meant):
    with pytest.raises(ValueError, match=f'"{typed}".*Did you mean "{meant}"'):
        find_released(typed)


def test_an_unknown_name_is_answered_with_all_names_on_one_line():
    with pytest.raises(ValueError) as caught:
        find_released("qqq")
    assert "Did you mean" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert all(name in str(caught.value) for name in RELEASED)
