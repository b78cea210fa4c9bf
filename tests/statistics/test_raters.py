"""Coefficients of many raters: stored oracles on real panels, cases, published numbers, awkward inputs."""

import csv
import gzip
import tracemalloc
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from shared import SHARED, needs_shared, oracle

from xjudge.errors import ProtocolError, Reason, StructureError
from xjudge.statistics.raters import (
    RATER_COEFFICIENTS,
    alpha,
    brennan_prediger,
    conger_kappa,
    count_vector_histogram,
    count_vectors,
    evaluate_raters,
    fleiss_kappa,
    from_terms,
    gwet_ac,
    histogram_of_counts,
    influence,
    item_statistic,
    item_terms,
    jackknife,
    light_kappa,
    mean_pairwise_kappa,
    merge_histograms,
    percent_agreement,
    sizes,
    standard_error,
    standard_error_from_moments,
)
from xjudge.statistics.weights import weight_matrix

OF_COUNTS = ["alpha", "fleiss_kappa", "scott_pi", "gwet_ac", "brennan_prediger", "percent_agreement"]

PANELS = [
    (task, panel)
    for task, panels in {
        "wax": ("humans", "llms", "all", "humans_masked"),
        "mtbench": ("humans", "llms", "all", "humans_masked"),
        "summeval": ("humans", "llms", "all", "humans_masked"),
        "cebab_aspects": ("humans", "llms", "all"),
        "cebab_stars": ("humans", "llms", "all", "humans_masked"),
        "10k_prompts": ("humans", "llms", "all"),
        "framing": ("humans", "llms", "all"),
    }.items()
    for panel in panels
]


@cache
def rows_of(task):
    with gzip.open(SHARED / "data" / f"alttest_{task}.csv.gz", "rt", newline="") as file:
        return list(csv.DictReader(file))


@cache
def panel_codes(task, panel):
    """Codes (unit, rater) and the raters' names, as oracles/README.md says: unit = (item, criterion)."""
    expected = oracle("multirater")[task][panel]
    kinds = {"humans": {"human"}, "humans_masked": {"human"}, "llms": {"llm"}, "all": {"human", "llm"}}[panel]
    rows = [row for row in rows_of(task) if row["rater_kind"] in kinds]
    units = {u: i for i, u in enumerate(sorted({(r["item"], r.get("criterion", "")) for r in rows}))}
    raters = {name: k for k, name in enumerate(sorted({r["rater"] for r in rows}))}
    place = {str(category): code for code, category in enumerate(expected["categories"])}
    codes = np.full((len(units), len(raters)), -1, dtype=np.int8)
    for row in rows:
        codes[units[row["item"], row.get("criterion", "")], raters[row["rater"]]] = place[row["label"]]
    if panel == "humans_masked":
        i, k = np.ogrid[: len(units), : len(raters)]
        codes[(3 * i + 5 * k) % 7 < 3] = -1
    return codes, list(raters)


def asked(key, n_categories):
    """Name and choices of an entry of ``stats``."""
    if key.startswith("alpha_weighted_"):
        return "alpha", {"weights": key.removeprefix("alpha_weighted_")}
    if key.startswith("alpha_"):
        return "alpha", {"metric": key.removeprefix("alpha_")}
    for prefix, name in (
        ("gwet_ac1", "gwet_ac"),
        ("gwet_ac2", "gwet_ac"),
        ("fleiss_kappa", "fleiss_kappa"),
        ("conger_kappa", "conger_kappa"),
        ("brennan_prediger", "brennan_prediger"),
    ):
        if key.startswith(prefix):
            choices = {"weights": key.removeprefix(prefix).removeprefix("_") or None}
            if name == "fleiss_kappa":
                choices["shares"] = "item_mean"
            if name == "conger_kappa":
                choices["n_categories"] = n_categories
            return name, choices
    raise AssertionError(key)


def data_for(name, codes, n_categories):
    return codes if name == "conger_kappa" else count_vectors(codes, n_categories)


@needs_shared
class TestRealPanels:
    @pytest.mark.parametrize(("task", "panel"), PANELS)
    def test_values_and_printed_standard_errors(self, task, panel):
        expected = oracle("multirater")[task][panel]
        codes, _ = panel_codes(task, panel)
        n_categories = expected["q"]
        checked = 0
        for key, want in expected["stats"].items():
            name, choices = asked(key, n_categories)
            data = data_for(name, codes, n_categories)
            value, reason = evaluate_raters(name, data, **choices)
            assert value == pytest.approx(want["value"], abs=1e-10), key
            assert reason == Reason.OK
            if "se" in want:
                se = standard_error(name, data, convention="gwet", **choices)
                assert se == pytest.approx(want["se"], abs=1e-10), key
            if "se_jackknife" in want:
                se = standard_error(name, data, convention="jackknife", **choices)
                assert se == pytest.approx(want["se_jackknife"], abs=1e-10), key
            checked += 1
        assert checked == len(expected["stats"]) > 0

    @pytest.mark.parametrize(("task", "panel"), PANELS)
    def test_the_histogram_gives_the_same(self, task, panel):
        expected = oracle("multirater")[task][panel]
        codes, _ = panel_codes(task, panel)
        patterns, multiplicities = count_vector_histogram(codes, expected["q"])
        assert multiplicities.sum() == len(codes)
        for key, want in expected["stats"].items():
            name, choices = asked(key, expected["q"])
            if name == "conger_kappa":
                continue
            value = evaluate_raters(name, patterns, item_weights=multiplicities, **choices).value
            assert value == pytest.approx(want["value"], abs=1e-10), key
            for convention, stored in (("gwet", "se"), ("jackknife", "se_jackknife")):
                if stored in want:
                    se = standard_error(
                        name, patterns, item_weights=multiplicities, convention=convention, **choices
                    )
                    assert se == pytest.approx(want[stored], abs=1e-10), key

    @pytest.mark.parametrize(("task", "panel"), PANELS)
    def test_sizes_and_percent_agreement(self, task, panel):
        expected = oracle("multirater")[task][panel]
        codes, raters = panel_codes(task, panel)
        counts = count_vectors(codes, expected["q"])
        size = sizes(counts)
        assert size.n == expected["n_units_paired"]
        assert size.n_labels + size.n_single == expected["n_ratings"]
        assert size.n + size.n_single == expected["n_units"]
        assert len(raters) == expected["n_raters"]
        assert percent_agreement(counts) == pytest.approx(expected["percent_agreement"], abs=1e-10)

    @pytest.mark.parametrize(("task", "panel"), [tp for tp in PANELS if tp[1] in ("humans", "llms")])
    def test_pairs_and_their_mean(self, task, panel):
        expected = oracle("multirater")[task][panel]
        codes, raters = panel_codes(task, panel)
        L, R = expected["q"], len(raters)
        tables = np.zeros((R, R, L, L), dtype=np.int64)
        for r in range(R):
            for s in range(R):
                both = (codes[:, r] >= 0) & (codes[:, s] >= 0)
                np.add.at(tables[r, s], (codes[both, r], codes[both, s]), 1)
        mean = mean_pairwise_kappa(tables)
        assert mean.value == pytest.approx(expected["mean_pairwise_kappa"], abs=1e-10)
        assert (mean.n_included, mean.n_total) == (expected["n_pairs_defined"], expected["n_pairs"])
        light = light_kappa(tables)
        if mean.n_included == mean.n_total:
            assert light.value == mean.value
        else:
            assert np.isnan(light.value)
            assert light.reason == Reason.UNDEFINED_PAIR
        for pair in expected["pairs"]:
            table = tables[raters.index(pair["a"]), raters.index(pair["b"])]
            assert table.sum() == pair["n"]
            two = np.broadcast_to(table, (2, 2, L, L))
            for key, weights in (
                ("kappa", None),
                ("kappa_linear", "linear"),
                ("kappa_quadratic", "quadratic"),
            ):
                if pair.get(key) is not None:
                    assert light_kappa(two, weights).value == pytest.approx(pair[key], abs=1e-10)

    def test_delta_is_the_jackknife_up_to_small_samples(self):
        codes, _ = panel_codes("cebab_stars", "humans_masked")
        counts = count_vectors(codes, 5)
        for name in OF_COUNTS:
            delta = standard_error(name, counts)
            assert standard_error(name, counts, convention="jackknife") == pytest.approx(delta, rel=0.005)


class TestCases:
    """Literal values of cases.json; the letters are its ids."""

    def test_s01_one_category_in_use(self):
        counts = np.array([[0, 2]] * 5)
        for name in ("alpha", "fleiss_kappa"):
            value, reason = evaluate_raters(name, counts)
            assert np.isnan(value)
            assert reason == Reason.ONE_CATEGORY
        assert brennan_prediger(counts) == 1
        assert gwet_ac(counts) == 1

    def test_s02_a_judge_that_passes_everything(self):
        counts = np.array([[0, 2]] * 9 + [[1, 1]])
        assert alpha(counts) == pytest.approx(0, abs=1e-12)
        assert gwet_ac(counts) == pytest.approx(161 / 181, abs=1e-12)

    def test_s04_absent_ratings(self):
        met, unmet, gone = 0, 1, -1
        labels = [
            [met, met, met],
            [met, gone, met],
            [unmet, unmet, gone],
            [gone, met, unmet],
            [met, met, gone],
            [unmet, met, unmet],
        ]
        counts = count_vectors(labels, 2)
        assert alpha(counts) == pytest.approx(19 / 45, abs=1e-12)
        assert percent_agreement(counts) == pytest.approx(13 / 18, abs=1e-12)
        assert sizes(counts).n == 6

    def test_s05_the_declared_order_decides(self):
        # very low 0 ... very high 4; rows h1, h2, h3
        h1 = [0, 1, 2, 3, 4, 1, -1, 2]
        h2 = [1, 1, 2, 4, 4, 0, 3, 3]
        h3 = [-1, 2, 1, 3, 4, 1, 3, -1]
        counts = count_vectors(np.transpose([h1, h2, h3]), 5)
        assert alpha(counts, "ordinal") == pytest.approx(923 / 1098, abs=1e-12)
        assert alpha(counts) == pytest.approx(13 / 43, abs=1e-12)

    def test_s07_between_one_and_four_labels(self):
        counts = [[2, 1, 0], [2, 0, 0], [0, 3, 1], [1, 0, 1], [0, 0, 3], [0, 1, 0], [4, 0, 0]]
        assert fleiss_kappa(counts) == pytest.approx(85 / 202, abs=1e-12)
        assert fleiss_kappa(counts, shares="item_mean") == pytest.approx(999 / 2273, abs=1e-12)
        assert percent_agreement(counts) == pytest.approx(23 / 36, abs=1e-12)
        assert alpha(counts) == pytest.approx(50 / 101, abs=1e-12)
        assert gwet_ac(counts) == pytest.approx(2235 / 4783, abs=1e-12)
        assert sizes(counts) == (6, 18, 1)

    def test_s08_a_category_nobody_chose(self):
        # relevant, partly, irrelevant
        counts = [[3, 0, 0], [2, 0, 1], [0, 0, 3], [2, 0, 1], [0, 0, 3], [3, 0, 0]]
        assert gwet_ac(counts) == pytest.approx(43 / 61, abs=1e-12)
        assert brennan_prediger(counts) == pytest.approx(2 / 3, abs=1e-12)
        assert fleiss_kappa(counts) == pytest.approx(11 / 20, abs=1e-12)
        assert alpha(counts) == pytest.approx(23 / 40, abs=1e-12)

    def test_s12_not_applicable_is_no_score(self):
        human = [4, 5, 0, 2, 3, 5, 1, 0, 4, 2]
        judge = [4, 4, 3, 2, 0, 5, 2, 0, 5, 3]
        labels = np.transpose([human, judge]) - 1  # 0 becomes -1, no label
        assert alpha(count_vectors(labels, 5), "interval") == pytest.approx(76 / 89, abs=1e-12)


def test_two_raters_of_the_wataoka_table():
    # closed_form.json: tn 118, fp 160, fn 108, tp 1852
    patterns, multiplicities = [[2, 0], [1, 1], [0, 2]], [118, 268, 1852]
    weighted = {"item_weights": multiplicities}
    assert fleiss_kappa(patterns, **weighted) == pytest.approx(0.40078166211097, abs=1e-12)
    assert evaluate_raters("scott_pi", patterns, **weighted).value == fleiss_kappa(patterns, **weighted)
    assert alpha(patterns, **weighted) == pytest.approx(0.40091553573427, abs=1e-12)
    assert gwet_ac(patterns, **weighted) == pytest.approx(0.85034209147391, abs=1e-12)
    assert brennan_prediger(patterns, **weighted) == pytest.approx(0.76050044682752, abs=1e-12)


@pytest.mark.parametrize(
    ("table", "pi", "gamma_pi", "ac1", "gamma_ac1"),
    [
        # LOO.md section 2: two categories, noise .85/.85 at prevalence .5, and .85/.70 at .9
        ([[0.3725, 0.1275], [0.1275, 0.3725]], 0.49, 0.7599, 0.49, 0.7599),
        ([[0.1, 0.12], [0.24, 0.54]], 0.1071, 1.0755, 0.3968, 0.9713),
    ],
)
def test_variance_constants_of_two_raters(table, pi, gamma_pi, ac1, gamma_ac1):
    shares = np.array(table) / np.sum(table)
    patterns = [[2, 0], [1, 1], [0, 2]]
    n = 1_000_000
    multiplicities = n * np.array([shares[0, 0], shares[0, 1] + shares[1, 0], shares[1, 1]])
    for name, value, gamma in (("fleiss_kappa", pi, gamma_pi), ("gwet_ac", ac1, gamma_ac1)):
        got = evaluate_raters(name, patterns, item_weights=multiplicities).value
        se = standard_error(name, patterns, item_weights=multiplicities)
        assert got == pytest.approx(value, abs=5e-5)
        assert n * se**2 == pytest.approx(gamma, abs=1e-4)


def test_fleiss_worked_example():
    # the worked example that textbooks give for Fleiss (1971): 14 raters, 10 subjects, 5 categories
    counts = [
        [0, 0, 0, 0, 14],
        [0, 2, 6, 4, 2],
        [0, 0, 3, 5, 6],
        [0, 3, 9, 2, 0],
        [2, 2, 8, 1, 1],
        [7, 7, 0, 0, 0],
        [3, 2, 6, 3, 0],
        [2, 5, 3, 2, 2],
        [6, 5, 2, 1, 0],
        [0, 2, 2, 3, 7],
    ]
    assert percent_agreement(counts) == pytest.approx(0.378, abs=5e-4)
    assert fleiss_kappa(counts) == pytest.approx(0.210, abs=5e-4)


class TestDegenerate:
    @pytest.mark.parametrize("name", OF_COUNTS)
    @pytest.mark.parametrize(
        "counts",
        [np.zeros((0, 3)), np.zeros((4, 3)), [[1, 0, 0]], [[1, 0, 0], [0, 1, 0], [0, 0, 0]]],
        ids=["no items", "no labels", "one label", "single labels"],
    )
    def test_no_pairs(self, name, counts):
        value, reason = evaluate_raters(name, counts)
        assert np.isnan(value)
        assert reason == Reason.NO_PAIRABLE_ITEM
        assert np.isnan(influence(name, counts)).all()
        assert np.isnan(standard_error(name, counts))
        assert np.isnan(jackknife(name, counts).value).all()

    def test_conger_without_pairs(self):
        for labels in (np.zeros((0, 2), dtype=int), [[0], [1]], [[0, -1], [-1, 1]]):
            value, reason = evaluate_raters("conger_kappa", labels, n_categories=2)
            assert np.isnan(value)
            assert reason == Reason.NO_PAIRABLE_ITEM

    def test_conger_of_constant_raters(self):
        value, reason = evaluate_raters("conger_kappa", [[1, 1], [1, 1]], n_categories=2)
        assert np.isnan(value)
        assert reason == Reason.ONE_CATEGORY
        # each constant on a category of its own: always in disagreement, by chance too
        assert conger_kappa([[0, 1], [0, 1]], 2) == 0

    def test_a_rater_without_labels_does_not_count(self):
        labels = np.array([[0, 0], [0, 1], [1, 1], [1, 0], [1, 1]])
        more = np.column_stack([labels, np.full(5, -1)])
        assert conger_kappa(more, 2) == conger_kappa(labels, 2)

    @pytest.mark.parametrize("name", ["alpha", "fleiss_kappa"])
    def test_weights_that_see_no_difference(self, name):
        own = np.ones((3, 3))
        own[0, 2] = own[2, 0] = own[1, 2] = own[2, 1] = 0
        value, reason = evaluate_raters(name, [[1, 1, 0], [2, 0, 0]], weights=own)
        assert np.isnan(value)
        assert reason == Reason.NO_POSSIBLE_DISAGREEMENT
        assert evaluate_raters(name, [[1, 1, 0], [0, 0, 2]], weights=own).value == 1

    @pytest.mark.parametrize("name", ["gwet_ac", "brennan_prediger"])
    def test_one_declared_category(self, name):
        value, reason = evaluate_raters(name, [[2], [3]])
        assert np.isnan(value)
        assert reason == Reason.ONE_CATEGORY
        assert percent_agreement([[2], [3]]) == 1

    @pytest.mark.parametrize("name", ["gwet_ac", "brennan_prediger"])
    def test_weights_of_one_throughout(self, name):
        value, reason = evaluate_raters(name, [[1, 1]], weights=np.ones((2, 2)))
        assert np.isnan(value)
        assert reason == Reason.NO_POSSIBLE_DISAGREEMENT

    def test_one_item_has_a_value_and_no_standard_error(self):
        counts = [[2, 1]]
        # shares 2/3 and 1/3: p_o 1/3, p_e 5/9
        assert fleiss_kappa(counts) == pytest.approx(-1 / 2)
        for convention in ("delta", "jackknife"):
            assert np.isnan(standard_error("fleiss_kappa", counts, convention=convention))

    @pytest.mark.parametrize("metric", ["nominal", "ordinal"])
    def test_undefined_and_defined_side_by_side(self, metric):
        batch = np.array([[[2, 0], [2, 0]], [[2, 0], [0, 2]], [[0, 0], [1, 0]]])
        value, reason = evaluate_raters("alpha", batch, metric=metric)
        np.testing.assert_array_equal(value, [np.nan, 1, np.nan])
        np.testing.assert_array_equal(reason, [Reason.ONE_CATEGORY, Reason.OK, Reason.NO_PAIRABLE_ITEM])
        gradient = influence("alpha", batch, metric=metric)
        np.testing.assert_array_equal(np.isnan(gradient).any(-1), [True, False, True])

    def test_huge_counts_do_not_overflow(self):
        counts = np.array([[3, 1], [1, 3], [4, 0]], dtype=np.int64) * 10**15
        for name in OF_COUNTS:
            got = evaluate_raters(name, counts).value
            want = evaluate_raters(name, counts // 10**9).value
            assert got == pytest.approx(want, abs=1e-5)

    def test_huge_multiplicities(self):
        patterns = [[2, 0], [1, 1], [0, 2]]
        got = fleiss_kappa(patterns, item_weights=np.array([3, 1, 2]) * 10**15)
        assert got == pytest.approx(fleiss_kappa(patterns, item_weights=[3, 1, 2]), abs=1e-12)

    def test_no_pair_of_raters(self):
        result = mean_pairwise_kappa(np.zeros((1, 1, 2, 2)))
        assert np.isnan(result.value)
        assert (result.reason, result.n_included, result.n_total) == (Reason.ONE_RATER, 0, 0)

    def test_pairs_that_never_meet(self):
        for function in (mean_pairwise_kappa, light_kappa):
            result = function(np.zeros((3, 3, 2, 2)))
            assert np.isnan(result.value)
            assert (result.reason, result.n_included, result.n_total) == (Reason.NO_RATER_PAIR, 0, 3)

    def test_inputs_are_left_alone(self):
        counts = np.array([[2.0, 0], [1, 1], [0, 2]])
        weights = np.array([1.0, 2, 3])
        for array in (counts, weights):
            array.setflags(write=False)
        for name in OF_COUNTS:
            for function in (evaluate_raters, influence, jackknife):
                found = function(name, counts, item_weights=weights)
                again = function(name, counts.copy(), item_weights=weights.copy())
                np.testing.assert_array_equal(np.array(found, dtype=float), np.array(again, dtype=float))
        assert counts.tolist() == [[2, 0], [1, 1], [0, 2]]
        assert weights.tolist() == [1, 2, 3]


class TestMechanism:
    counts = np.random.default_rng(3).integers(0, 3, size=(40, 4))

    @pytest.mark.parametrize("name", OF_COUNTS)
    def test_chunks_add_up(self, name):
        parts = [item_terms(name, self.counts[i : i + 7]).sum(0) for i in range(0, 40, 7)]
        got = from_terms(name, np.sum(parts, axis=0), n_categories=4).value
        assert got == pytest.approx(evaluate_raters(name, self.counts).value, abs=1e-12)

    @pytest.mark.parametrize(
        ("name", "choices", "n_terms"),
        [
            ("alpha", {}, 5),
            ("alpha", {"metric": "interval"}, 5),
            ("alpha", {"metric": "ordinal"}, 10),
            ("fleiss_kappa", {}, 6),
            ("gwet_ac", {}, 6),
            ("brennan_prediger", {}, 2),
            ("percent_agreement", {}, 2),
        ],
    )
    def test_number_of_terms(self, name, choices, n_terms):
        assert item_terms(name, self.counts, **choices).shape == (40, n_terms)

    def test_resamples_in_one_call(self):
        rng = np.random.default_rng(0)
        weights = rng.multinomial(40, np.full(40, 1 / 40), size=25)
        for name in OF_COUNTS:
            together = evaluate_raters(name, self.counts, item_weights=weights).value
            one_by_one = [evaluate_raters(name, np.repeat(self.counts, w, axis=0)).value for w in weights]
            np.testing.assert_allclose(together, one_by_one, atol=1e-12)

    def test_leading_axes_of_counts_and_weights(self):
        batch = self.counts.reshape(2, 20, 4)
        weights = np.random.default_rng(1).integers(0, 4, size=(3, 1, 20))
        got = alpha(batch, item_weights=weights)
        assert got.shape == (3, 2)
        assert got[2, 1] == pytest.approx(alpha(batch[1], item_weights=weights[2, 0]))

    def test_blocks_do_not_show(self):
        many = np.random.default_rng(2).integers(0, 3, size=(50_000, 4))
        for name in OF_COUNTS:
            statistic = item_statistic(name, 4)
            want = statistic.value(statistic.terms(many.astype(float)).sum(0))[0]
            assert evaluate_raters(name, many).value == pytest.approx(want, abs=1e-12)

    def test_a_statistic_is_resolved_once(self):
        statistic = item_statistic("alpha", 4, metric="interval")
        assert evaluate_raters(statistic, self.counts).value == alpha(self.counts, "interval")
        sums = item_terms(statistic, self.counts).sum(0)
        assert from_terms(statistic, sums).value == pytest.approx(alpha(self.counts, "interval"), abs=1e-12)

    @pytest.mark.parametrize(
        ("name", "choices"),
        [
            ("alpha", {}),
            ("alpha", {"metric": "ordinal"}),
            ("alpha", {"metric": "interval"}),
            ("alpha", {"metric": "ratio"}),
            ("alpha", {"weights": "linear"}),
            ("fleiss_kappa", {}),
            ("fleiss_kappa", {"weights": "quadratic"}),
            ("fleiss_kappa", {"shares": "item_mean"}),
            ("gwet_ac", {}),
            ("gwet_ac", {"weights": "ordinal"}),
            ("brennan_prediger", {"weights": "linear"}),
            ("percent_agreement", {}),
        ],
    )
    def test_influence_is_the_derivative_by_weight(self, name, choices):
        weights = np.random.default_rng(5).integers(1, 4, size=40).astype(float)
        got = influence(name, self.counts, item_weights=weights, **choices)
        h = 1e-5
        steps = h * np.eye(40)
        up, down = (
            evaluate_raters(name, self.counts, item_weights=weights + sign * steps, **choices).value
            for sign in (1, -1)
        )
        np.testing.assert_allclose(got, (up - down) / (2 * h), atol=1e-8)

    def test_influence_of_conger_is_the_derivative(self):
        labels = np.random.default_rng(6).integers(-1, 3, size=(30, 4))
        got = influence("conger_kappa", labels, n_categories=3, weights="linear")
        h = 1e-5
        up, down = (
            conger_kappa(labels, 3, "linear", item_weights=1 + sign * h * np.eye(30)) for sign in (1, -1)
        )
        np.testing.assert_allclose(got, (up - down) / (2 * h), atol=1e-8)

    @pytest.mark.parametrize("name", OF_COUNTS)
    def test_jackknife_leaves_one_out(self, name):
        got = jackknife(name, self.counts).value
        want = [evaluate_raters(name, np.delete(self.counts, i, axis=0)).value for i in range(40)]
        np.testing.assert_allclose(got, want, atol=1e-12)

    @pytest.mark.parametrize("name", OF_COUNTS)
    def test_jackknife_of_resamples(self, name):
        weights = np.array([[2, 0, 1, 0, 1], [0, 0, 0, 0, 5], [0, 0, 0, 0, 0]])
        counts = self.counts[:5]
        got = jackknife(name, counts, item_weights=weights)
        for row, w in enumerate(weights):
            for item in range(5):
                less = w - np.where((np.arange(5) == item) & (w > 0), 1, 0)
                want = evaluate_raters(name, counts, item_weights=less)
                assert got.value[row, item] == pytest.approx(want.value, abs=1e-12, nan_ok=True)
                assert got.reason[row, item] == want.reason

    def test_jackknife_that_loses_its_only_pairs(self):
        value, reason = jackknife("alpha", [[1, 2], [1, 0], [0, 0]])
        np.testing.assert_array_equal(np.isnan(value), [True, False, False])
        assert reason[0] == Reason.NO_PAIRABLE_ITEM

    @pytest.mark.parametrize("name", OF_COUNTS)
    def test_jackknife_that_loses_the_only_other_category(self, name):
        got = jackknife(name, [[3, 0], [3, 0], [0, 3]])
        want = evaluate_raters(name, [[3, 0], [3, 0]])
        np.testing.assert_array_equal(got.value[2], want.value)
        assert got.reason[2] == want.reason

    @pytest.mark.parametrize("convention", ["delta", "gwet", "jackknife"])
    @pytest.mark.parametrize("name", ["alpha", "gwet_ac", "brennan_prediger", "percent_agreement"])
    def test_multiplicities_are_items_written_out(self, name, convention):
        weights = np.random.default_rng(7).integers(0, 4, size=40)
        got = standard_error(name, self.counts, item_weights=weights, convention=convention)
        want = standard_error(name, np.repeat(self.counts, weights, axis=0), convention=convention)
        assert got == pytest.approx(want, rel=1e-10)

    def test_standard_error_of_a_mean(self):
        shares = np.array([1, 1 / 3, 1, 1 / 3, 0])
        counts = [[3, 0, 0], [2, 1, 0], [0, 3, 0], [0, 2, 1], [1, 1, 1]]
        want = shares.std(ddof=1) / np.sqrt(5)
        for convention in ("delta", "gwet", "jackknife"):
            assert standard_error("percent_agreement", counts, convention=convention) == pytest.approx(want)

    @pytest.mark.parametrize("metric", ["nominal", "ordinal"])
    def test_standard_error_from_what_one_pass_adds_up(self, metric):
        statistic = item_statistic("alpha", 4, metric=metric)
        chunks = [item_terms(statistic, self.counts[i : i + 7]) for i in range(0, 40, 7)]
        got = standard_error_from_moments(
            statistic,
            sum(t.sum(0) for t in chunks),
            sum(t.T @ t for t in chunks),
            sizes(self.counts).n,
        )
        assert got == pytest.approx(standard_error(statistic, self.counts), rel=1e-9)
        batch = np.zeros((2, statistic.terms(self.counts).shape[1]))
        assert np.isnan(
            standard_error_from_moments(statistic, batch, np.zeros((2, *batch.shape[1:] * 2)), 5)
        ).all()

    def test_many_categories_stay_small(self):
        rng = np.random.default_rng(9)
        counts = rng.multinomial(4, np.full(60, 1 / 60), size=20_000)
        tracemalloc.start()
        influence("alpha", counts, metric="ordinal")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 10e6  # all terms together would be 293 MB

    def test_clusters_of_one_change_nothing(self):
        plain = standard_error("fleiss_kappa", self.counts)
        assert standard_error("fleiss_kappa", self.counts, clusters=np.arange(40)) == pytest.approx(plain)

    def test_clusters_add_their_influences(self):
        # every item twice, in one cluster: nothing is learned from the copy
        twice = np.concatenate([self.counts, self.counts])
        clusters = np.tile(np.arange(40), 2)
        got = standard_error("fleiss_kappa", twice, clusters=clusters)
        assert got == pytest.approx(standard_error("fleiss_kappa", self.counts))

    @pytest.mark.parametrize("name", ["fleiss_kappa", "gwet_ac", "brennan_prediger"])
    def test_singletons_inflate_the_printed_form_only(self, name):
        shares = {"shares": "item_mean"} if name == "fleiss_kappa" else {}
        complete = np.array([[3, 0], [2, 1], [0, 3], [3, 0], [1, 2], [3, 0], [0, 3], [3, 0]] * 5)
        with_single = np.concatenate([complete, [[1, 0]] * 40])
        delta, printed = (
            {c: standard_error(name, data, convention=c, **shares) for c in ("delta", "gwet")}
            for data in (complete, with_single)
        )
        assert delta["gwet"] == pytest.approx(delta["delta"], rel=1e-12)
        assert printed["gwet"] > 1.05 * printed["delta"]


class TestCounting:
    def test_count_vectors(self):
        labels = np.array([[[0, 2, -1], [1, 1, 1]], [[-1, -3, -2], [2, 0, 2]]], dtype=np.int8)
        got = count_vectors(labels, 3)
        np.testing.assert_array_equal(got, [[[1, 0, 1], [0, 3, 0]], [[0, 0, 0], [1, 0, 2]]])
        assert got.dtype == np.int64

    def test_histogram_is_the_unique_rows(self):
        labels = np.random.default_rng(0).integers(-2, 4, size=(3000, 5)).astype(np.int8)
        patterns, multiplicities = count_vector_histogram(labels, 4)
        want, counts = np.unique(count_vectors(labels, 4), axis=0, return_counts=True)
        np.testing.assert_array_equal(patterns, want)
        np.testing.assert_array_equal(multiplicities, counts)

    @pytest.mark.parametrize(("n_raters", "n_categories"), [(14, 17), (40, 30), (300, 2), (1, 1), (7, 9)])
    def test_histogram_where_the_table_would_be_too_large(self, n_raters, n_categories):
        rng = np.random.default_rng(1)
        labels = rng.integers(-1, n_categories, size=(500, n_raters))
        labels[250:] = labels[:250]
        patterns, multiplicities = count_vector_histogram(labels, n_categories)
        want, counts = np.unique(count_vectors(labels, n_categories), axis=0, return_counts=True)
        np.testing.assert_array_equal(patterns, want)
        np.testing.assert_array_equal(multiplicities, counts)

    @pytest.mark.parametrize("n_categories", [3, 20])
    def test_histogram_over_several_blocks(self, n_categories):
        labels = np.random.default_rng(2).integers(-1, 3, size=((1 << 16) * 2 + 100, 6)).astype(np.int8)
        patterns, multiplicities = count_vector_histogram(labels, n_categories)
        parts = [count_vector_histogram(labels[i : i + 50_000], n_categories) for i in (0, 50_000, 100_000)]
        merged = merge_histograms(parts)
        np.testing.assert_array_equal(patterns, merged.patterns)
        np.testing.assert_array_equal(multiplicities, merged.multiplicities)
        assert multiplicities.sum() == len(labels)
        np.testing.assert_array_equal(
            (multiplicities @ patterns)[:3], [(labels == c).sum() for c in range(3)]
        )

    @pytest.mark.parametrize("largest", [2, 10**6])
    def test_histogram_of_given_counts(self, largest):
        rng = np.random.default_rng(8)
        counts = rng.integers(0, 3, size=(70_000, 8)) * (largest // 2)
        got = histogram_of_counts(counts)
        want, multiplicities = np.unique(counts, axis=0, return_counts=True)
        np.testing.assert_array_equal(got.patterns, want)
        np.testing.assert_array_equal(got.multiplicities, multiplicities)
        assert histogram_of_counts(np.zeros((0, 3), dtype=int)).patterns.shape == (0, 3)

    def test_layout_of_the_labels_does_not_matter(self):
        labels = np.random.default_rng(4).integers(-1, 3, size=(100, 4))
        labels.setflags(write=False)
        plain = count_vector_histogram(labels, 3)
        for other in (np.asfortranarray(labels), labels.astype(np.int8), np.repeat(labels, 2, 0)[::2]):
            np.testing.assert_array_equal(count_vector_histogram(other, 3).patterns, plain.patterns)

    def test_no_items_and_no_raters(self):
        patterns, multiplicities = count_vector_histogram(np.zeros((0, 4), dtype=int), 3)
        assert patterns.shape == (0, 3)
        assert multiplicities.shape == (0,)
        patterns, multiplicities = count_vector_histogram(np.zeros((5, 0), dtype=int), 3)
        np.testing.assert_array_equal(patterns, [[0, 0, 0]])
        np.testing.assert_array_equal(multiplicities, [5])
        assert merge_histograms([], n_categories=3).patterns.shape == (0, 3)

    def test_unsigned_codes(self):
        assert count_vectors(np.array([[0, 1]], dtype=np.uint8), 2).tolist() == [[1, 1]]

    def test_sizes_with_multiplicities(self):
        patterns, multiplicities = [[2, 1], [1, 0], [0, 0], [0, 2]], [3, 2, 7, 1]
        assert sizes(patterns, multiplicities) == (4, 11, 2)


class TestErrors:
    @pytest.mark.parametrize(
        ("call", "error", "words"),
        [
            (lambda: evaluate_raters("beta", [[1, 1]]), ProtocolError, "no coefficient 'beta'.*'alpha'"),
            (lambda: evaluate_raters("light_kappa", [[1, 1]]), ProtocolError, "of counts or labels"),
            (lambda: alpha([[1, 1]], "cubic"), ProtocolError, "'circular' or an own matrix; got 'cubic'"),
            (lambda: alpha([[1, 1]], "interval", weights="linear"), ProtocolError, "not both"),
            (
                lambda: fleiss_kappa([[1, 1]], shares="mean"),
                ProtocolError,
                "'pooled' or 'item_mean'; got 'mean'",
            ),
            (
                lambda: evaluate_raters("gwet_ac", [[1, 1]], metric="ordinal"),
                ProtocolError,
                "choice of alpha",
            ),
            (lambda: evaluate_raters("alpha", [[1, 1]], shares="item_mean"), ProtocolError, "one convention"),
            (lambda: gwet_ac([[1, 1]], np.eye(3)), ProtocolError, "2 x 2 matrix"),
            (lambda: alpha([1, 2]), StructureError, r"\(\.\.\., item, L\); got \(2,\)"),
            (lambda: alpha([[1, -1]]), StructureError, "not negative; use `count_vectors`"),
            (lambda: alpha([[1, np.nan]]), StructureError, "finite"),
            (lambda: alpha([[1, np.inf]]), StructureError, "finite"),
            (lambda: alpha([["a", "b"]]), StructureError, "Counts are numbers"),
            (lambda: alpha([[1, 1]], item_weights=[1, 2]), ProtocolError, "each of the 1 items"),
            (lambda: alpha([[1, 1]], item_weights=[-1]), ProtocolError, "not negative"),
            (lambda: alpha([[1, 1]], item_weights=[np.nan]), ProtocolError, "finite"),
            (lambda: alpha([[1, 1]], item_weights=["a"]), ProtocolError, "must be numbers"),
            (lambda: evaluate_raters("conger_kappa", [[0, 1]]), ProtocolError, "needs `n_categories`"),
            (lambda: conger_kappa([[0, 2]], 2), StructureError, "Code 2 is outside the 2"),
            (lambda: conger_kappa([[0.5, 1]], 2), StructureError, "integer codes"),
            (lambda: from_terms("alpha", [1, 2, 3]), ProtocolError, "needs `n_categories`"),
            (lambda: evaluate_raters(item_statistic("alpha", 3), [[1, 1]]), StructureError, "item, 3"),
            (lambda: influence("alpha", [[1, 1]], convention="fay"), ProtocolError, "'delta' or 'gwet'"),
            (lambda: influence("fleiss_kappa", [[1, 1]], convention="gwet"), ProtocolError, "use 'delta'"),
            (
                lambda: influence("alpha", [[1, 1]], metric="ordinal", convention="gwet"),
                ProtocolError,
                "use 'delta'",
            ),
            (lambda: standard_error("alpha", [[1, 1]], clusters=[0, 1]), ProtocolError, "each of the 1 rows"),
            (
                lambda: standard_error("alpha", [[1, 1]], clusters=[0], item_weights=[1]),
                ProtocolError,
                "do not combine",
            ),
            (lambda: count_vectors([[0, 2]], 2), StructureError, "Code 2 is outside the 2 declared"),
            (lambda: count_vector_histogram([[0, 5]], 3), StructureError, "Code 5 is outside the 3"),
            (lambda: count_vector_histogram([0, 1], 2), StructureError, "item, rater"),
            (
                lambda: count_vector_histogram([[[0, 1]]], 2),
                StructureError,
                r"\(item, rater\); got \(1, 1, 2\)",
            ),
            (lambda: count_vectors([[0.0, 1.0]], 2), StructureError, "integer codes"),
            (lambda: count_vectors([[0, 1]], 0), StructureError, "at least 1; got 0"),
            (lambda: histogram_of_counts([[1.5, 2]]), StructureError, r"integers of shape \(item, L\)"),
            (lambda: histogram_of_counts([[1, -1]]), StructureError, "not negative"),
            (lambda: merge_histograms([]), StructureError, "one number of categories"),
            (lambda: mean_pairwise_kappa(np.zeros((2, 2))), StructureError, r"\(\.\.\., R, R, L, L\)"),
            (lambda: mean_pairwise_kappa(np.zeros((2, 3, 2, 2))), StructureError, "R, R, L, L"),
        ],
    )
    def test_one_sentence(self, call, error, words):
        with pytest.raises(error, match=words):
            call()


def test_registry_says_what_each_is_made_of():
    assert {c.name for c in RATER_COEFFICIENTS.values() if c.needs == "counts"} == set(OF_COUNTS)
    for name in OF_COUNTS:
        assert item_statistic(name, 3).needs == "counts"
    assert item_statistic("conger_kappa", 3).needs == RATER_COEFFICIENTS["conger_kappa"].needs == "labels"


def test_mean_pairwise_by_hand():
    tables = np.zeros((2, 3, 3, 2, 2))
    tables[0, 0, 1] = [[4, 1], [1, 4]]  # 3/5
    tables[0, 0, 2] = [[2, 0], [0, 2]]  # 1
    tables[0, 1, 2] = [[3, 0], [0, 0]]  # one category in use
    tables[1, 0, 1] = tables[1, 0, 2] = tables[1, 1, 2] = [[1, 1], [1, 1]]  # 0
    mean, light = mean_pairwise_kappa(tables), light_kappa(tables)
    np.testing.assert_allclose(mean.value, [float(Fraction(4, 5)), 0], atol=1e-12)
    np.testing.assert_array_equal(mean.n_included, [2, 3])
    np.testing.assert_array_equal(np.isnan(light.value), [True, False])
    np.testing.assert_array_equal(light.reason, [Reason.UNDEFINED_PAIR, Reason.OK])


def test_weights_by_name_and_by_matrix():
    counts = [[2, 1, 0, 0], [0, 1, 1, 1], [0, 0, 3, 0], [1, 0, 0, 2]]
    own = weight_matrix("quadratic", 4)
    for name in OF_COUNTS:
        by_name = evaluate_raters(name, counts, weights="quadratic").value
        assert evaluate_raters(name, counts, weights=own).value == by_name
    assert alpha(counts, weights="quadratic") == pytest.approx(alpha(counts, "interval"), abs=1e-12)
    assert alpha(counts, weights="identity") == alpha(counts)
