"""Reserved codes, the raw axis, and labels as codes."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from xjudge.codes import (
    CA,
    EXCLUDED,
    INVALID,
    MISSING,
    N_OUTCOMES,
    OUTCOMES,
    n_raw,
    raw_index,
    raw_names,
    smallest_dtype,
    to_codes,
    translate,
)

# ------------------------------------------------------------------------------------------------------- axis


def test_the_reserved_codes_are_those_of_the_data_model():
    assert (MISSING, CA, INVALID) == (-1, -2, -3)
    assert OUTCOMES == {"missing": -1, "ca": -2, "invalid": -3}
    assert EXCLUDED not in OUTCOMES.values()
    assert EXCLUDED < 0


def test_the_raw_axis_of_two_categories():
    assert n_raw(2) == 5
    assert raw_names(("UNMET", "MET")) == ["UNMET", "MET", "missing", "ca", "invalid"]
    assert [raw_index(name, 2) for name in ("missing", "ca", "invalid")] == [2, 3, 4]


@pytest.mark.parametrize("n_categories", [1, 2, 5, 127, 40_000])
def test_outcomes_follow_the_categories_in_the_order_of_their_names(n_categories):
    places = [raw_index(name, n_categories) for name in OUTCOMES]
    assert places == [n_categories, n_categories + 1, n_categories + 2]
    assert n_raw(n_categories) == n_categories + N_OUTCOMES == places[-1] + 1


def test_an_unknown_outcome_is_no_place():
    with pytest.raises(KeyError):
        raw_index("tie", 3)


@pytest.mark.parametrize(
    ("categories", "outcomes"),
    [
        (("missing", "there"), ["<missing>", "ca", "invalid"]),
        (("ca", "<ca>"), ["missing", "<<ca>>", "invalid"]),
        (("invalid", "<invalid>", "<<invalid>>", "ca"), ["missing", "<ca>", "<<<invalid>>>"]),
        ((1, 2.5, True), ["missing", "ca", "invalid"]),
    ],
)
def test_an_outcome_does_not_take_the_name_of_a_category(categories, outcomes):
    names = raw_names(categories)
    assert names[len(categories) :] == outcomes
    assert len(set(names)) == len(names)


# ------------------------------------------------------------------------------------------------------ dtype


@pytest.mark.parametrize(
    ("n_categories", "dtype"),
    [
        (1, np.int8),
        (128, np.int8),  # codes 0 .. 127
        (129, np.int16),
        (32_768, np.int16),
        (32_769, np.int32),
        (2**31, np.int32),
        (2**31 + 1, np.int64),
    ],
)
def test_the_smallest_dtype_holds_the_last_code(n_categories, dtype):
    assert smallest_dtype(n_categories) == np.dtype(dtype)
    assert np.iinfo(dtype).max >= n_categories - 1
    assert np.iinfo(dtype).min <= EXCLUDED


# --------------------------------------------------------------------------------------------------- to codes


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
def test_signed_integers_pass_through_without_a_copy(dtype):
    labels = np.array([0, 1, -1, -2, -3], dtype=dtype)
    assert to_codes(labels) is labels


@pytest.mark.parametrize(
    ("dtype", "wider"),
    [(np.uint8, np.int16), (np.uint16, np.int32), (np.uint32, np.int64), (np.uint64, np.int64)],
)
def test_unsigned_integers_keep_their_values(dtype, wider):
    labels = np.array([0, 1, min(np.iinfo(dtype).max, 2**63 - 1)], dtype=dtype)
    out = to_codes(labels)
    assert out.dtype == np.dtype(wider)
    assert out.tolist() == labels.tolist()


def test_an_unsigned_integer_beyond_all_codes_is_no_outcome():
    out = to_codes(np.array([2**64 - 1, 2**64 - 2, 2**63], dtype=np.uint64))
    assert (out >= 0).all()  # not -1 (missing), not -2 (cannot assess)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_integral_floats_are_codes_and_nan_is_missing(dtype):
    out = to_codes(np.array([[0.0, 3.0, np.nan], [-0.0, -2.0, -3.0]], dtype=dtype))
    assert out.dtype.kind == "i"
    assert out.tolist() == [[0, 3, MISSING], [0, CA, INVALID]]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("value", [0.5, -1.5, np.inf, -np.inf])
def test_what_is_no_code_becomes_the_least_code(dtype, value):
    out = to_codes(np.array([value, 1.0], dtype=dtype))
    assert out.tolist() == [np.iinfo(np.int32).min, 1]


@pytest.mark.parametrize("value", [2.0**31, 1e20, 1e300, -(2.0**31), -1e300, 2.0**31 - 1])
def test_a_float_beyond_the_codes_becomes_the_least_code(value):
    assert to_codes(np.array([value])).tolist() == [np.iinfo(np.int32).min]


@given(
    hnp.arrays(
        st.sampled_from([np.float16, np.float32, np.float64]),
        hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
        elements=st.one_of(
            st.integers(-5, 200).map(float),
            st.just(float("nan")),
            st.floats(-4, 4, width=16),
            st.just(np.inf),
        ),
    )
)
def test_to_codes_is_the_plain_reading_of_each_value(labels):
    labels.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out = to_codes(labels)
    assert out.shape == labels.shape
    for value, code in zip(labels.ravel().tolist(), out.ravel().tolist(), strict=True):
        if value != value:
            assert code == MISSING
        elif value.is_integer() if np.isfinite(value) else False:
            assert code == int(value)
        else:
            assert code == np.iinfo(np.int32).min


# -------------------------------------------------------------------------------------------------- translate


def plainly(label, targets):
    """Protocol code of one label, by the words of the data model."""
    n_categories = len(targets) - 3
    if 0 <= label < n_categories:
        return targets[label]
    if label in (-1, -2, -3):
        return targets[n_categories - 1 - label]
    return MISSING


@given(st.data())
def test_translate_is_the_plain_lookup(data):
    n_categories = data.draw(st.integers(1, 6))
    targets = tuple(
        data.draw(st.lists(st.integers(-4, 5), min_size=n_categories + 3, max_size=n_categories + 3))
    )
    dtype = data.draw(st.sampled_from([np.int8, np.int16, np.int32, np.int64]))
    bounds = np.iinfo(dtype)
    labels = data.draw(
        hnp.arrays(
            dtype,
            hnp.array_shapes(min_dims=1, max_dims=2, min_side=0, max_side=5),
            elements=st.one_of(st.integers(-5, 8), st.sampled_from([bounds.min, bounds.max])),
        )
    )
    labels.flags.writeable = False
    out = translate(labels, targets)
    assert out.shape == labels.shape
    assert out.ravel().tolist() == [plainly(label, targets) for label in labels.ravel().tolist()]


@pytest.mark.parametrize("n_categories", [127, 128, 129, 200, 256, 300])
def test_translate_int8_labels_of_a_long_scale(n_categories):
    # a dataset may hold few codes of a scale that is longer than its dtype
    labels = np.array([0, 126, 127, -1, -2, -3, -4, -100, -128], dtype=np.int8)
    targets = (*range(n_categories), -1, -2, -3)
    expected = [plainly(label, targets) for label in labels.tolist()]
    assert translate(labels, targets).tolist() == expected
    assert translate(labels[::-1], targets).tolist() == expected[::-1]


def test_translate_gives_a_dtype_that_holds_every_target():
    targets = (*range(200), -1, -2, -3)
    assert translate(np.array([199], dtype=np.int16), targets).tolist() == [199]
    assert translate(np.array([1], dtype=np.int64), (0, 1, -1, -2, -3)).dtype == np.dtype(np.int8)
