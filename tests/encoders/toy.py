"""Small transformers with random weights, in folders as `transformers` saves them."""

from pathlib import Path

import torch

WORDS = ["the", "cat", "sat", "on", "mat", "dog", "##s", "##ing", "run", "a", "##b", "##c"]


def save_bert(folder: Path, *, positions: int = 24, n_layers: int = 2, dim: int = 8) -> Path:
    """A BERT over some word pieces: 'cats' is two pieces, 'abcbc' five."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer
    from tokenizers.processors import TemplateProcessing
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS]
    inner = Tokenizer(WordPiece({p: i for i, p in enumerate(pieces)}, unk_token="[UNK]"))
    inner.normalizer = BertNormalizer(lowercase=True)
    inner.pre_tokenizer = BertPreTokenizer()
    inner.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    # As the file of all-MiniLM-L6-v2, which would cut and pad if it were asked.
    inner.enable_truncation(9)
    inner.enable_padding(length=9)
    PreTrainedTokenizerFast(
        tokenizer_object=inner,
        unk_token="[UNK]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        model_max_length=positions,
    ).save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(pieces),
        hidden_size=dim,
        num_hidden_layers=n_layers,
        num_attention_heads=2,
        intermediate_size=2 * dim,
        max_position_embeddings=positions,
        initializer_range=0.5,
    )
    BertModel(config).save_pretrained(folder)
    return folder


def save_roberta(folder: Path, *, positions: int = 26) -> Path:
    """A RoBERTa over bytes: 'cat' is one piece behind a space, and three without."""
    from tokenizers import Tokenizer, decoders, pre_tokenizers
    from tokenizers.models import BPE
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast, RobertaConfig, RobertaModel

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = ["<s>", "<pad>", "</s>", "<unk>", *alphabet, "Ġc", "at", "Ġcat"]
    inner = Tokenizer(
        BPE(
            {p: i for i, p in enumerate(pieces)},
            [("Ġ", "c"), ("a", "t"), ("Ġc", "at")],
            unk_token="<unk>",
        )
    )
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    inner.post_processor = TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=inner,
        unk_token="<unk>",
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
    ).save_pretrained(folder)
    torch.manual_seed(0)
    config = RobertaConfig(
        vocab_size=len(pieces),
        hidden_size=8,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=12,
        max_position_embeddings=positions,
        initializer_range=0.5,
    )
    RobertaModel(config).save_pretrained(folder)
    return folder
