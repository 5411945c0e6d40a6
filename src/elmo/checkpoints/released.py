"""The published ELMo weights, by name: where each file is, and what its publishers say of it.

Every address is printed on the Allen Institute's ELMo page (allennlp.org/elmo; its source is
`allenai/allennlp-website/elmo.html`) or in the repository that page links to.
`docs/guides/models.md` says which.
"""

import difflib
from dataclasses import dataclass

# The page links the files in this style; the bucket is also reachable as allennlp.s3.amazonaws.com.
ALLENNLP = "https://s3-us-west-2.amazonaws.com/allennlp/models/elmo"
GERMAN = "https://github.com/t-systems-on-site-services-gmbh/german-elmo-model/releases/download"

# The page itself names no licence. Its maintainers were asked (allenai/allennlp, issue 1462).
UNRESTRICTED = "no restrictions imposed (AI2, allennlp issue 1462)"


@dataclass(frozen=True)
class Released:
    """One published model: two files, and what is known of them.

    Attributes:
        name: What a user types.
        options_url: The official `options.json`, whatever it is called there.
        weights_url: The official HDF5 file.
        description: One line: the training text and the size of the LSTM.
        language: ISO 639-1 code of the training text.
        licence: As its publisher states it; None where nothing is stated.
        parameters: Millions of parameters, as published; None where not published.
        weights_bytes: Size of the HDF5 file as downloads of it have shown; None where unknown.
            Shown to users, not checked: a mirror may pack the same numbers differently.
        options_digest: `algorithm:hex` as published, checked after the download; None where
            nothing is published, and then the checksum is recorded at the first download.
        weights_digest: The same for the weights.
    """

    name: str
    options_url: str
    weights_url: str
    description: str
    language: str
    licence: str | None = None
    parameters: float | None = None
    weights_bytes: int | None = None
    options_digest: str | None = None
    weights_digest: str | None = None


def _by_allenai(
    name: str,
    stem: str,
    description: str,
    *,
    parameters: float,
    weights_bytes: int | None = None,
) -> Released:
    """One of the four English models, whose files are all named after their sizes."""
    return Released(
        name=name,
        options_url=f"{ALLENNLP}/{stem}/elmo_{stem}_options.json",
        weights_url=f"{ALLENNLP}/{stem}/elmo_{stem}_weights.hdf5",
        description=description,
        language="en",
        licence=UNRESTRICTED,
        parameters=parameters,
        weights_bytes=weights_bytes,
    )


_MODELS = (
    _by_allenai(
        "small",
        "2x1024_128_2048cnn_1xhighway",
        "English news (1 Billion Word Benchmark), LSTM 1024/128",
        parameters=13.6,
    ),
    _by_allenai(
        "medium",
        "2x2048_256_2048cnn_1xhighway",
        "English news (1 Billion Word Benchmark), LSTM 2048/256",
        parameters=28.0,
    ),
    _by_allenai(
        "original",
        "2x4096_512_2048cnn_2xhighway",
        "English news (1 Billion Word Benchmark), LSTM 4096/512: the model of the paper",
        parameters=93.6,
        weights_bytes=374_434_792,
    ),
    _by_allenai(
        "original-5.5b",
        "2x4096_512_2048cnn_2xhighway_5.5B",
        "English Wikipedia and news, 5.5 billion tokens, LSTM 4096/512",
        parameters=93.6,
    ),
    Released(
        name="pubmed",
        options_url=f"{ALLENNLP}/contributed/pubmed/elmo_2x4096_512_2048cnn_2xhighway_options.json",
        weights_url=f"{ALLENNLP}/contributed/pubmed/"
        "elmo_2x4096_512_2048cnn_2xhighway_weights_PubMed_only.hdf5",
        description="English PubMed abstracts, 797 million tokens, LSTM 4096/512",
        language="en",
    ),
    Released(
        name="portuguese",
        options_url=f"{ALLENNLP}/contributed/pt/wikipedia/options.json",
        weights_url=f"{ALLENNLP}/contributed/pt/wikipedia/elmo_pt_weights.hdf5",
        description="Portuguese Wikipedia (Federal University of Goiás)",
        language="pt",
    ),
    Released(
        name="portuguese-brwac",
        options_url=f"{ALLENNLP}/contributed/pt/brwac/options.json",
        weights_url=f"{ALLENNLP}/contributed/pt/brwac/elmo_pt_weights_dgx1.hdf5",
        description="Brazilian Portuguese web pages, brWaC (Federal University of Goiás)",
        language="pt",
    ),
    Released(
        name="japanese",
        options_url="https://exawizardsallenlp.blob.core.windows.net/data/options.json",
        weights_url="https://exawizardsallenlp.blob.core.windows.net/data/weights.hdf5",
        description="Japanese (ExaWizards; Bataa and Wu, 2019)",
        language="ja",
    ),
    Released(
        name="german",
        options_url=f"{GERMAN}/files_1/options.json",
        weights_url=f"{GERMAN}/files_1/weights.hdf5",
        description="German Wikipedia with its discussions, 963 million tokens (May and T-Systems)",
        language="de",
        licence="BSD-2-Clause",
        options_digest="sha1:04afb8bc77acf5e65633ced2efc1e91d05332e89",
        weights_digest="sha1:9084adab3eefaed4f07da7331217fcb873417add",
    ),
    Released(
        name="basque",
        options_url="https://schweter.eu/cloud/eu-elmo/options.json",
        weights_url="https://schweter.eu/cloud/eu-elmo/weights.hdf5",
        description="Basque Wikipedia, OPUS and Leipzig corpora, 73 million tokens (Schweter)",
        language="eu",
    ),
)

RELEASED: dict[str, Released] = {model.name: model for model in _MODELS}


def find_released(name: str) -> Released:
    """The published model of that name.

    Raises:
        ValueError: If there is none; the message lists the names and suggests the nearest.

    Example:
        >>> find_released("original").parameters
        93.6
    """
    if name in RELEASED:
        return RELEASED[name]
    near = difflib.get_close_matches(name.lower(), RELEASED, n=1)
    hint = f' Did you mean "{near[0]}"?' if near else ""
    raise ValueError(f'no released model is called "{name}".{hint} Names: {", ".join(RELEASED)}.')
