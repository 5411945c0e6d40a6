"""Sentence vectors in two lines, and what they are good for: finding a similar sentence.

python examples/sentence_vectors.py ["A question of yours."]
"""

import sys

from elmo import Elmo

SENTENCES = [
    "The court sentenced him to five years in prison.",
    "She plays the violin in a small orchestra.",
    "The patient was given antibiotics for the infection.",
    "Our team scored twice in the last ten minutes.",
    "Fry the onions in butter until they are soft.",
    "The company reported a loss in the third quarter.",
    "Rain and strong winds are expected tonight.",
]
QUESTIONS = [
    "The judge found her guilty of fraud.",
    "Stir the sauce until it is thick.",
    "Sales of the firm fell in the first quarter.",
    "He plays the piano in a jazz band.",
]


def main() -> None:
    """Print the sentences that are most like each question."""
    # These are the two lines. A vector is the mean of its tokens' vectors.
    elmo = Elmo.from_pretrained()
    vectors = elmo.encode(SENTENCES, normalise=True)  # (sentences, dim), each of length 1

    questions = sys.argv[1:] or QUESTIONS
    cosines = elmo.encode(questions, normalise=True) @ vectors.T  # (questions, sentences)
    for question, row in zip(questions, cosines, strict=True):
        print(f"\n{question}")
        for i in row.argsort()[::-1][:3]:
            print(f"  {row[i]:.3f}  {SENTENCES[i]}")


if __name__ == "__main__":
    main()
