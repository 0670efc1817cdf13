# SPDX-License-Identifier: Apache-2.0
"""Words and names that are in no list, drawn letter by letter, so that the model learns to handle any word and not only
those of words.py. One in eight of them, by hash, is kept for measuring (unseen.py): training never draws it."""

import zlib

from words import AVOIDED, CITIES, CODAS, COMMON_WORDS, NAMES, ONSETS, UNSEEN_CITIES, UNSEEN_NAMES, UNSEEN_WORDS, VOWELS

UNSEEN_ONE_IN = 8
LISTED = {word.lower() for word in [*COMMON_WORDS, *NAMES, *CITIES]}
LISTED_UNSEEN = {word.lower() for word in [*UNSEEN_WORDS, *UNSEEN_NAMES, *UNSEEN_CITIES]}
assert not LISTED & LISTED_UNSEEN
# About as often as in English text.
LETTER_FREQUENCIES = dict(zip("abcdefghijklmnopqrstuvwxyz", [8, 2, 3, 4, 12, 2, 2, 4, 7, 1, 1, 4, 3, 7, 8, 2, 1, 6, 6, 9, 3,
                                                             1, 2, 1, 2, 1]))
MORE_ONSETS = ONSETS + "sh qu wh sc sk sn sw tw kn str v z j y".split()
MORE_CODAS = CODAS + "ck ng ll ss sh ch p b g f y er le et in on ow nt lt".split()


def is_unseen(word):
    word = word.lower()
    return word in LISTED_UNSEEN or \
        (word not in LISTED and zlib.crc32(f"unseen {word}".encode()) % UNSEEN_ONE_IN == 0)


def spliced(rng):
    """The beginning of one word of the lists and the end of another: how the tokens of real words are spelled."""
    first, second = rng.choice(COMMON_WORDS), rng.choice(COMMON_WORDS)
    return first[:rng.randint(1, len(first))] + second[rng.randint(0, len(second) - 1):]


def of_syllables(rng):
    return "".join(rng.choice(MORE_ONSETS) + rng.choice(VOWELS) + rng.choice(MORE_CODAS)
                   for _ in range(rng.choice([1, 2, 2, 2, 3])))


def of_alternating_letters(rng):
    consonants, vowels = "bcdfghjklmnpqrstvwxz", "aeiouy"
    start = rng.randint(0, 1)
    return "".join(rng.choice(vowels if (i + start) % 2 else consonants) for i in range(rng.randint(3, 9)))


def of_random_letters(rng):
    letters = list(LETTER_FREQUENCIES)
    weights = list(LETTER_FREQUENCIES.values()) if rng.random() < 0.7 else None
    return "".join(rng.choices(letters, weights, k=rng.randint(3, 8)))


def made_up_word(rng, unseen=False):
    """A word of 3 to 10 letters that is in no list; with `unseen` one of those that training never draws."""
    while True:
        shape = rng.random()
        word = (spliced if shape < 0.25 else of_syllables if shape < 0.6 else of_alternating_letters if shape < 0.8
                else of_random_letters)(rng)
        if 3 <= len(word) <= 10 and word not in LISTED and word not in LISTED_UNSEEN and is_unseen(word) == unseen and \
                not any(part in word for part in AVOIDED):
            return word
