"""Majority references, item verdicts and extraction, against slow oracles written from the definitions."""

from __future__ import annotations

import itertools
import warnings
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from labels import BINARY, dataset, random_codes

import xjudge as xj

MISSING, CA, INVALID = -1, -2, -3


def quiet(verb: Any, *arguments: Any, **options: Any) -> xr.Dataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xj.XJudgeWarning)
        return verb(*arguments, **options)


# --------------------------------------------------------------------------------------------------- majority


def slow_vote(votes: list[int]) -> int | str:
    """Plurality of the votes that are categories; a word where there is none."""
    cast = [vote for vote in votes if vote >= 0]
    if not cast:
        return "missing" if all(vote == MISSING for vote in votes) else "no vote"
    counts = Counter(cast)
    top = [vote for vote, n in counts.items() if n == max(counts.values())]
    return top[0] if len(top) == 1 else "tied"


def slow_majority(codes: Any, humans: list[int], judge: int, handle: dict[int, int]) -> dict[str, Any]:
    """Table, ties and eligible pairs of one judge against the vote of the humans, one criterion."""
    pairs, ties, eligible = [], 0, 0
    for row in codes.tolist():
        vote = slow_vote([handle.get(row[h], row[h]) for h in humans])
        verdict = handle.get(row[judge], row[judge])
        ties += vote == "tied"
        eligible += vote not in ("tied", "missing") and verdict != MISSING
        if isinstance(vote, int) and verdict >= 0:
            pairs.append((vote, verdict))
    agreed = sum(vote == verdict for vote, verdict in pairs)
    return {"n": len(pairs), "agreed": agreed, "ties": ties, "eligible": eligible}


HANDLING: dict[str, dict[int, int]] = {"exclude": {}, "negative": {CA: 0}, "category": {CA: 3}}


@given(
    seed=st.integers(0, 10**6),
    n_humans=st.integers(1, 5),
    n_items=st.integers(1, 12),
    ca=st.sampled_from(["exclude", "category"]),
)
def test_majority_against_the_definition(seed: int, n_humans: int, n_items: int, ca: str) -> None:
    codes = random_codes(seed, (n_items, n_humans + 1), 3)
    ds = dataset(codes, ["human"] * n_humans + ["judge"], xj.Scale.nominal(["a", "b", "c"]))
    result = quiet(
        xj.agreement,
        ds,
        statistic="accuracy",
        reference="majority",
        protocol=xj.Protocol(ca=ca),
        interval=None,
    )
    expected = slow_majority(codes, list(range(n_humans)), n_humans, HANDLING[ca])
    assert int(result["n"][0]) == expected["n"]
    assert int(result["n_reference_ties"][0]) == expected["ties"]
    assert int(result["n_eligible"][0]) == expected["eligible"]
    if expected["n"]:
        assert float(result["accuracy"][0]) == expected["agreed"] / expected["n"]
    else:
        assert np.isnan(result["accuracy"][0])


def test_the_vote_is_taken_after_the_map() -> None:
    # 1, 2, 4: mapped at 2 the majority is positive, although every raw label stands alone
    ds = dataset([[0, 1, 3, 3]], ["human"] * 3 + ["judge"], xj.Scale.ordinal([1, 2, 3, 4]))
    mapped = quiet(
        xj.agreement,
        ds,
        statistic="accuracy",
        reference="majority",
        protocol=xj.Protocol(scale_map=xj.at_least(2)),
    )
    raw = quiet(xj.agreement, ds, statistic="accuracy", reference="majority")
    assert float(mapped["accuracy"][0]) == 1.0
    assert int(raw["n_reference_ties"][0]) == 1
    assert int(raw["n"][0]) == 0


def test_the_vote_is_taken_after_recoding() -> None:
    ds = dataset([[CA, CA, 1, 0]], ["human"] * 3 + ["judge"])
    protocol = xj.Protocol(ca="negative")
    recoded = quiet(xj.agreement, ds, statistic="accuracy", reference="majority", protocol=protocol)
    excluded = quiet(xj.agreement, ds, statistic="accuracy", reference="majority")
    assert float(recoded["accuracy"][0]) == 1.0
    assert float(excluded["accuracy"][0]) == 0.0


def test_a_human_is_judged_by_the_others() -> None:
    codes = random_codes(5, (80, 4), 2)
    ds = dataset(codes, ["human", "human", "human", "judge"])
    result = quiet(xj.agreement, ds, statistic="accuracy", reference="majority", raters="all")
    assert result["rater"].values.tolist() == ["h1", "h2", "h3", "j1"]
    for position in range(4):
        others = [h for h in range(3) if h != position]
        expected = slow_majority(codes, others, position, {})
        assert int(result["n"][position]) == expected["n"]
        assert float(result["accuracy"][position]) == expected["agreed"] / expected["n"]
        assert int(result["n_reference_ties"][position]) == expected["ties"]


def test_a_subset_of_humans_votes() -> None:
    codes = random_codes(6, (60, 5), 2)
    ds = dataset(codes, ["human"] * 4 + ["judge"])
    result = quiet(xj.agreement, ds, statistic="accuracy", reference="majority", humans=["h1", "h3", "h4"])
    expected = slow_majority(codes, [0, 2, 3], 4, {})
    assert int(result["n"][0]) == expected["n"]
    assert float(result["accuracy"][0]) == expected["agreed"] / expected["n"]


def test_tables_name_what_the_vote_left_open() -> None:
    codes = [[0, 1, 1], [CA, CA, 0], [MISSING, MISSING, 1], [1, 1, INVALID]]
    result = xj.tables(dataset(codes, ["human", "human", "judge"]), reference="majority")["count"].squeeze()
    assert result["reference_label"].values.tolist() == ["UNMET", "MET", "missing", "no vote", "tied"]
    cells = {("tied", "MET"), ("no vote", "UNMET"), ("missing", "MET"), ("MET", "invalid")}
    for left, right in cells:
        assert int(result.sel(reference_label=left, rater_label=right)) == 1
    assert int(result.sum()) == 4


# ------------------------------------------------------------------------------------------------- item level


def slow_item(codes: list[int], rule: Any, weights: list[Fraction], polarity: list[int]) -> int:
    """Item verdict by completing the undecided criteria in every way."""
    undecided = [place for place, code in enumerate(codes) if code < 0]
    verdicts = set()
    for completion in itertools.product((0, 1), repeat=len(undecided)):
        full = list(codes)
        for place, value in zip(undecided, completion, strict=True):
            full[place] = value
        good = [value if sign > 0 else 1 - value for value, sign in zip(full, polarity, strict=True)]
        verdicts.add(rule(good, weights))
    if len(verdicts) == 1:
        return int(verdicts.pop())
    # what the verdict waits for: only criteria whose completion matters
    matters = [codes[place] for place in undecided if weights[place] > 0 or rule is slow_all]
    if MISSING in matters:
        return MISSING
    return INVALID if INVALID in matters else CA


def slow_share(cut: str) -> Any:
    def rule(good: list[int], weights: list[Fraction]) -> bool:
        return sum(w * v for w, v in zip(weights, good, strict=True)) >= Fraction(cut) * sum(weights)

    return rule


def slow_all(good: list[int], weights: list[Fraction]) -> bool:
    return all(good)


def slow_sum(good: list[int], weights: list[Fraction]) -> int:
    return int(sum(w * v for w, v in zip(weights, good, strict=True)))


def item_labels(ds: xr.Dataset, protocol: xj.Protocol) -> list[Any]:
    """Item verdicts of the first rater, read off the disagreements with an identical rater."""
    twice = ds.isel(rater=[0, 0]).assign_coords(rater=["h1", "j1"], role=("rater", ["human", "judge"]))
    out: list[Any] = [None] * ds.sizes["item"]
    rows = xj.disagreements(twice, "j1", reference="h1", protocol=protocol, cell=(None, None))
    position = {name: n for n, name in enumerate(ds["item"].values.tolist())}
    for item, label in zip(rows["item"], rows["rater_label"], strict=True):
        out[position[item]] = label
    return out


CRITERIA = 4
CODES = st.lists(
    st.lists(st.sampled_from([0, 1, MISSING, CA, INVALID]), min_size=CRITERIA, max_size=CRITERIA),
    min_size=1,
    max_size=8,
)
WORDS = {0: "UNMET", 1: "MET", MISSING: "missing", CA: "ca", INVALID: "invalid"}


@given(
    codes=CODES,
    cut=st.sampled_from(["0.1", "0.25", "0.5", "0.6", "0.75", "1"]),
    weights=st.lists(st.sampled_from(["0", "0.1", "0.2", "1", "3"]), min_size=CRITERIA, max_size=CRITERIA),
    polarity=st.lists(st.sampled_from([1, -1]), min_size=CRITERIA, max_size=CRITERIA),
)
def test_weighted_share_against_all_completions(
    codes: list[list[int]], cut: str, weights: list[str], polarity: list[int]
) -> None:
    if not any(float(weight) for weight in weights):
        weights = ["1"] * CRITERIA
    ds = dataset([[row] for row in codes], ["human"]).assign_coords(polarity=("criterion", polarity))
    named = {f"c{n}": float(weight) for n, weight in enumerate(weights)}
    protocol = xj.Protocol(aggregate="item", item_rule=xj.weighted_share(cut), criterion_weights=named)
    exact = [Fraction(weight) for weight in weights]
    expected = [WORDS[slow_item(row, slow_share(cut), exact, polarity)] for row in codes]
    assert item_labels(ds, protocol) == expected


@given(codes=CODES, polarity=st.lists(st.sampled_from([1, -1]), min_size=CRITERIA, max_size=CRITERIA))
def test_all_positive_against_all_completions(codes: list[list[int]], polarity: list[int]) -> None:
    ds = dataset([[row] for row in codes], ["human"]).assign_coords(polarity=("criterion", polarity))
    protocol = xj.Protocol(aggregate="item", item_rule=xj.all_positive())
    ones = [Fraction(1)] * CRITERIA
    expected = [WORDS[slow_item(row, slow_all, ones, polarity)] for row in codes]
    assert item_labels(ds, protocol) == expected


@given(codes=CODES, weights=st.lists(st.integers(0, 3), min_size=CRITERIA, max_size=CRITERIA))
def test_sum_against_all_completions(codes: list[list[int]], weights: list[int]) -> None:
    weights = weights if any(weights) else [1] * CRITERIA
    ds = dataset([[row] for row in codes], ["human"])
    named = {f"c{n}": weight for n, weight in enumerate(weights)}
    protocol = xj.Protocol(aggregate="item", item_rule="sum", criterion_weights=named)
    exact = [Fraction(weight) for weight in weights]
    expected: list[Any] = []
    for row in codes:
        found = slow_item(row, slow_sum, exact, [1] * CRITERIA)
        expected.append(found if found >= 0 else WORDS[found])
    assert item_labels(ds, protocol) == expected


def test_a_share_exactly_at_the_cut_is_reached() -> None:
    # 0.1 + 0.2 of 0.5 is exactly the cut 0.6; in binary floats it is not
    ds = dataset([[[1, 1, 0]]], ["human"])
    weights = {"c0": 0.1, "c1": 0.2, "c2": 0.2}
    protocol = xj.Protocol(aggregate="item", item_rule=xj.weighted_share(0.6), criterion_weights=weights)
    assert item_labels(ds, protocol) == ["MET"]


def test_recoding_acts_on_criteria_and_category_on_items() -> None:
    ds = dataset([[[1, CA]], [[CA, CA]]], ["human"])
    rule = xj.weighted_share(0.5)
    both = {"aggregate": "item", "item_rule": rule}
    assert item_labels(ds, xj.Protocol(ca="exclude", **both)) == ["MET", "ca"]
    assert item_labels(ds, xj.Protocol(ca="negative", **both)) == ["MET", "UNMET"]
    assert item_labels(ds, xj.Protocol(ca="category", **both)) == ["MET", "CA"]


def test_the_majority_votes_over_item_verdicts() -> None:
    # by items: MET, MET, UNMET; by criteria the votes would make UNMET, MET -> half
    rows = [[1, 1], [1, 1], [0, 0], [1, 1]]
    ds = dataset([rows], ["human"] * 3 + ["judge"])
    protocol = xj.Protocol(aggregate="item", item_rule=xj.all_positive())
    result = quiet(xj.agreement, ds, statistic="accuracy", reference="majority", protocol=protocol)
    assert float(result["accuracy"][0]) == 1.0
    assert result["accuracy"].dims == ("rater",)


def test_sum_has_the_possible_sums_as_categories() -> None:
    codes = random_codes(2, (40, 2, 3), 2, outcomes=False)
    ds = dataset(codes, ["human", "judge"])
    protocol = xj.Protocol(aggregate="item", item_rule="sum")
    result = xj.tables(ds, protocol=protocol)["count"].squeeze()
    assert result["rater_label"].values.tolist()[:4] == ["0", "1", "2", "3"]
    totals = codes.sum(2)
    assert int(result[2, 3]) == ((totals[:, 0] == 2) & (totals[:, 1] == 3)).sum()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"item_rule": "sum", "criterion_weights": {"c0": 0.5, "c1": 1}, "ca": "category"},
            "continuous item scale",
        ),
        ({"item_rule": xj.all_positive(), "criterion_weights": {"c0": 1}}, "'c1' has no weight"),
        (
            {"item_rule": xj.all_positive(), "criterion_weights": {"c0": 1, "c1": 1, "z": 1}},
            "no criterion 'z'",
        ),
    ],
)
def test_item_rules_that_do_not_fit(options: dict[str, Any], message: str) -> None:
    ds = dataset(random_codes(0, (5, 2, 2), 2), ["human", "judge"])
    with pytest.raises(xj.ProtocolError, match=message):
        xj.agreement(ds, protocol=xj.Protocol(aggregate="item", **options))


def test_polarity_is_one_or_minus_one() -> None:
    ds = dataset(random_codes(0, (5, 2, 2), 2), ["human", "judge"]).assign_coords(
        polarity=("criterion", [1, 0])
    )
    with pytest.raises(xj.StructureError, match="polarity"):
        xj.agreement(ds, protocol=xj.Protocol(aggregate="item", item_rule=xj.all_positive()))


# ------------------------------------------------------------------------------------------------- extraction


def with_probabilities(seed: int = 0, n_items: int = 30) -> tuple[xr.Dataset, Any]:
    """One human, one judge with probabilities over an ordinal scale of four; a judge without."""
    rng = np.random.default_rng(seed)
    scale = xj.Scale.ordinal([1, 2, 3, 4])
    ds = dataset(rng.integers(0, 4, (n_items, 3)), ["human", "judge", "judge"], scale)
    prob = np.full((n_items, 3, 4), np.nan)
    prob[:, 1] = rng.dirichlet(np.ones(4), n_items)
    return ds.assign(prob=(("item", "rater", "category"), prob)), prob[:, 1]


def read(ds: xr.Dataset, protocol: xj.Protocol, judge: str = "j1", seed: int = 0) -> list[Any]:
    rows = xj.disagreements(ds, judge, reference="h1", protocol=protocol, cell=(None, None), seed=seed)
    return rows.set_index("item")["rater_label"].reindex(ds["item"].values).tolist()


def test_argmax_and_expected_against_plain_loops() -> None:
    ds, prob = with_probabilities()
    scores = np.array([1, 2, 3, 4])
    assert read(ds, xj.Protocol(extraction="argmax")) == (prob.argmax(1) + 1).tolist()
    expected = [int(np.floor((row * scores).sum() / row.sum() + 0.5)) for row in prob]
    assert read(ds, xj.Protocol(extraction="expected")) == expected


def test_cut_reads_the_probability_of_positive() -> None:
    ds, prob = with_probabilities()
    protocol = xj.Protocol(scale_map=xj.at_least(3), extraction=xj.cut(0.7))
    expected = [">=3" if row[2] + row[3] >= 0.7 else "<3" for row in prob]
    assert read(ds, protocol) == expected


def test_sampling_follows_the_probabilities_and_the_seed() -> None:
    ds, _ = with_probabilities()
    many = ds.isel(item=np.zeros(4000, dtype=int)).assign_coords(item=np.arange(4000))
    prob = many["prob"].values[0, 1]
    drawn = read(many, xj.Protocol(extraction="sample"))
    shares = np.bincount(np.array(drawn) - 1, minlength=4) / 4000
    np.testing.assert_allclose(shares, prob, atol=4 * 0.5 / np.sqrt(4000))
    assert read(many, xj.Protocol(extraction="sample")) == drawn
    assert read(many, xj.Protocol(extraction="sample"), seed=1) != drawn


@pytest.mark.parametrize("rule", ["argmax", "expected", "sample"])
def test_chunks_change_no_extracted_label(rule: Any) -> None:
    ds, _ = with_probabilities()
    protocol = xj.Protocol(extraction=rule)
    lazy = ds.chunk(item=(11, 1, 18))
    xr.testing.assert_identical(
        quiet(xj.agreement, lazy, protocol=protocol), quiet(xj.agreement, ds, protocol=protocol)
    )


def test_differences_of_extraction_are_counted() -> None:
    ds, prob = with_probabilities()
    result = quiet(xj.agreement, ds, statistic="accuracy", protocol=xj.Protocol(extraction="argmax"))
    changed = int((prob.argmax(1) != ds["label"].values[:, 1]).sum())
    assert result["n_extraction_changed"].squeeze().values.tolist() == [changed, 0]


def test_raters_without_probabilities_and_outcomes_keep_their_labels() -> None:
    ds, prob = with_probabilities()
    labels = ds["label"].copy(deep=True)
    labels.values[0, 1], labels.values[1, 1], labels.values[2, 1] = CA, INVALID, MISSING
    ds = ds.assign(label=labels)
    protocol = xj.Protocol(extraction="argmax")
    found = read(ds, protocol)
    assert found[:2] == ["ca", "invalid"]
    assert found[2] == prob[2].argmax() + 1
    assert read(ds, protocol, judge="j2") == (ds["label"].values[:, 2] + 1).tolist()


def test_extraction_needs_probabilities() -> None:
    ds = dataset(random_codes(0, (5, 2), 2), ["human", "judge"])
    with pytest.raises(xj.StructureError, match="no variable `prob`"):
        xj.agreement(ds, protocol=xj.Protocol(extraction="argmax"))
    wrong = ds.assign(prob=(("item", "rater", "category"), np.ones((5, 2, 3))))
    with pytest.raises(xj.StructureError, match="2 categories"):
        xj.agreement(wrong, protocol=xj.Protocol(extraction="argmax"))


def test_the_scale_of_these_tests() -> None:
    assert [WORDS[code] for code in (0, 1)] == list(BINARY.categories)
