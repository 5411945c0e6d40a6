"""Which sentences are trained on, which are held out, and which are left out.

Sentences are compared by 64-bit hashes of what they say. These are split by value into parts that
fit into memory, each part with every occurrence of its sentences.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from elmo.pretrain.blocks import read_array
from elmo.pretrain.corpus_config import CorpusConfig
from elmo.pretrain.shuffle import mixed

TRAIN, HELDOUT, DUPLICATE, EXCLUDED = range(4)
PART_SENTENCES = 2_000_000
ROW = np.dtype([("hash", "<u8"), ("sentence", "<i8"), ("heldout", "?")])


class Overlap(NamedTuple):
    """What held-out and training text have in common.

    Attributes:
        heldout: Held-out sentences that stand in the training text too.
        train: Sentences of the training text that are held out too.
    """

    heldout: int
    train: int


def held_out(hashes: np.ndarray, share: float, seed: int) -> np.ndarray:
    """Whether each sentence is held out, by its hash."""
    key = np.random.SeedSequence(seed).generate_state(1, np.uint64)
    return mixed(hashes ^ key) < np.uint64(int(share * 2**64))


def choose_sides(
    blocks: Sequence[Path], heldout: Sequence[bool], config: CorpusConfig, work: Path
) -> Overlap:
    """Write the side of each sentence into a file `sides`: a byte per sentence, block after block.

    Args:
        blocks: Folders of blocks.
        heldout: Whether each block is held-out text.
        config: What to hold out and to leave out.
        work: A folder for this file, and for hashes meanwhile.
    """
    n_sentences = 0
    with open(work / "sides", "wb") as file:
        for block, is_heldout in zip(blocks, heldout, strict=True):
            hashes = read_array(block, "hashes")
            out = np.full(len(hashes), is_heldout)
            if config.heldout_share:
                out |= held_out(hashes, config.heldout_share, config.heldout_seed)
            np.where(out, HELDOUT, TRAIN).astype(np.uint8).tofile(file)
            n_sentences += len(hashes)
    if not n_sentences or not (config.deduplicate or any(heldout)):
        return Overlap(0, 0)
    sides = np.memmap(work / "sides", dtype=np.uint8, mode="r+")
    n_parts = -(-n_sentences // PART_SENTENCES)
    paths = [work / f"hashes-{part:05}" for part in range(n_parts)]
    for path in paths:
        path.unlink(missing_ok=True)
    first = 0
    for block in blocks:
        hashes = read_array(block, "hashes")
        rows = np.empty(len(hashes), dtype=ROW)
        rows["hash"] = hashes
        rows["sentence"] = np.arange(first, first + len(hashes))
        rows["heldout"] = sides[first : first + len(hashes)] == HELDOUT
        first += len(hashes)
        parts = ((hashes >> np.uint64(32)) * np.uint64(n_parts)) >> np.uint64(32)
        for part, path in enumerate(paths):
            with open(path, "ab") as file:
                rows[parts == part].tofile(file)
    n_heldout = n_train = 0
    for path in paths:
        rows = np.fromfile(path, dtype=ROW)
        path.unlink()
        here, hashes = rows["heldout"], rows["hash"]
        in_heldout = np.isin(hashes, hashes[here])
        in_train = np.isin(hashes, hashes[~here])
        both = in_heldout & in_train
        n_heldout += int((both & here).sum())
        n_train += int((both & ~here).sum())
        if config.deduplicate:
            order = np.lexsort((rows["sentence"], here, hashes))
            again = np.zeros(len(rows), dtype=bool)
            again[1:] = (hashes[order][1:] == hashes[order][:-1]) & (
                here[order][1:] == here[order][:-1]
            )
            sides[rows["sentence"][order[again]]] = DUPLICATE
        if config.exclude_heldout:
            sides[rows["sentence"][both & ~here]] = EXCLUDED
    sides.flush()
    return Overlap(n_heldout, n_train)
