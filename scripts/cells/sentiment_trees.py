# SPDX-License-Identifier: Apache-2.0
"""Parsed sentences about films and food with a sentiment at each node, from 0 (very negative) to 4 (very positive).

Every label follows from the words by a rule, so a model can be checked: "very" strengthens, "slightly" weakens, "not" turns
round, of two clauses around "but" the second counts, "and" adds. A tree is (label, word) or (label, left, right).
"""
import zlib

SCORES = {
    2: """wonderful brilliant superb excellent perfect outstanding delightful magnificent""".split(),
    1: """good nice pleasant fine clever charming tasty funny solid warm""".split(),
    -1: """bad dull weak bland boring clumsy slow cold tired silly""".split(),
    -2: """terrible awful horrible dreadful disastrous disgusting unbearable atrocious""".split(),
    0: """long short new old French Italian late early second whole quiet red""".split(),
}
VERBS = {2: ["loved", "adored"], 1: ["liked", "enjoyed"], -1: ["disliked", "regretted"], -2: ["hated", "loathed"],
         0: ["saw", "tried", "remembered", "expected", "chose"]}
NOUNS = """film plot ending cast music scene story soup pizza waiter menu dessert service room book song actor hotel coffee
kitchen""".split()
PEOPLE = ["I", "we", "they", "everyone", "critics", "my-friends"]
AMPLIFIERS, DIMINISHERS, NEGATIONS = ["very", "really", "extremely"], ["slightly", "somewhat", "fairly"], ["not", "never"]
WORDS = sorted({word for words in SCORES.values() for word in words} | {word for words in VERBS.values() for word in words}
               | set(NOUNS) | set(PEOPLE) | set(AMPLIFIERS) | set(DIMINISHERS) | set(NEGATIONS)
               | {"the", "a", "was", "seemed", "and", "but", "although", ",", ".", "to", "me", "yesterday", "again", "here"})
LABELS = ["very negative", "negative", "neutral", "positive", "very positive"]
HELD_OUT = 10  # one sentence of so many


def clamp(score):
    return max(-2, min(2, score))


def sign(score):
    return (score > 0) - (score < 0)


def leaf(word, score=0):
    return (score + 2, word)


def join(score, left, right):
    return (score + 2, left, right)


def score_of(tree):
    return tree[0] - 2


def adjective(rng):
    score = rng.choice([2, 1, -1, -2, 2, 1, -1, -2, 0])
    tree = leaf(rng.choice(SCORES[score]), score)
    kind = rng.random()
    if kind < 0.2:
        tree = join(2 * sign(score), leaf(rng.choice(AMPLIFIERS)), tree)
    elif kind < 0.35:
        tree = join(sign(score), leaf(rng.choice(DIMINISHERS)), tree)
    if rng.random() < 0.25:
        tree = join(-sign(score), leaf(rng.choice(NEGATIONS)), tree)
    return tree


def thing(rng):
    tree = leaf(rng.choice(NOUNS))
    if rng.random() < 0.5:
        quality = adjective(rng)
        tree = join(score_of(quality), quality, tree)
    return join(score_of(tree), leaf(rng.choice(["the", "a"])), tree)


def clause(rng):
    if rng.random() < 0.6:
        subject, quality = thing(rng), adjective(rng)
        said = join(score_of(quality), leaf(rng.choice(["was", "seemed"])), quality)
        tree = join(clamp(score_of(subject) + score_of(said)), subject, said)
    else:
        score = rng.choice([2, 1, -1, -2, 0, 0])
        verb, what = leaf(rng.choice(VERBS[score]), score), thing(rng)
        if rng.random() < 0.15:
            verb = join(-sign(score), leaf("never"), verb)
        done = join(score_of(verb) or score_of(what), verb, what)
        tree = join(score_of(done), leaf(rng.choice(PEOPLE)), done)
    if rng.random() < 0.2:
        tree = join(score_of(tree), tree, leaf(rng.choice(["yesterday", "again", "here"])))
    return tree


def sentence(rng):
    tree = clause(rng)
    for _ in range(rng.choice([0, 0, 1, 1, 2])):
        other, word = clause(rng), rng.choice(["and", "but", "although"])
        if word == "although":  # "although A , B": B counts
            first = join(score_of(tree), join(score_of(tree), leaf("although"), tree), leaf(","))
            tree = join(score_of(other) or score_of(tree), first, other)
        else:
            score = clamp(score_of(tree) + score_of(other)) if word == "and" else score_of(other) or score_of(tree)
            tree = join(score, tree, join(score_of(other), leaf(word), other))
    return join(score_of(tree), tree, leaf("."))


def brackets(tree):
    if len(tree) == 2:
        return f"({tree[0]} {tree[1]})"
    return f"({tree[0]} {brackets(tree[1])} {brackets(tree[2])})"


def is_held_out(tree):
    """By its words, so in training under no draw."""
    return zlib.crc32(brackets(tree).encode()) % HELD_OUT == 0


def draw(rng, held_out):
    while True:
        tree = sentence(rng)
        if is_held_out(tree) == held_out:
            return tree
