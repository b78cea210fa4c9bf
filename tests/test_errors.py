"""Exceptions, warnings, reasons, and how messages list values."""

import pickle
import warnings

import numpy as np
import pytest

from xjudge import errors
from xjudge.errors import (
    DependencyError,
    DroppedWarning,
    OverlapError,
    ProtocolError,
    ProtocolWarning,
    Reason,
    StructureError,
    UndefinedWarning,
    VocabularyError,
    XJudgeError,
    XJudgeWarning,
    listing,
    reason_text,
    warn,
)

# ------------------------------------------------------------------------------------------------- exceptions


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (StructureError, ValueError),
        (VocabularyError, ValueError),
        (ProtocolError, ValueError),
        (OverlapError, ValueError),
        (DependencyError, ImportError),
    ],
)
def test_every_error_is_ours_and_the_builtin_a_caller_would_catch(error, builtin):
    assert issubclass(error, XJudgeError)
    assert issubclass(error, builtin)
    assert str(pickle.loads(pickle.dumps(error("what, where, what to do")))) == "what, where, what to do"


@pytest.mark.parametrize(
    "error", [StructureError, VocabularyError, ProtocolError, OverlapError, DependencyError]
)
def test_no_error_is_one_that_attribute_or_item_access_would_swallow(error):
    assert not issubclass(error, AttributeError | KeyError)


@pytest.mark.parametrize("warning", [UndefinedWarning, DroppedWarning, ProtocolWarning])
def test_every_warning_is_a_user_warning_of_ours(warning):
    assert issubclass(warning, XJudgeWarning)
    assert issubclass(warning, UserWarning)


def test_what_the_room_exports_exists():
    assert all(hasattr(errors, name) for name in errors.__all__)


# ---------------------------------------------------------------------------------------------------- reasons


def test_reasons_have_different_numbers_and_different_texts():
    assert len({int(reason) for reason in Reason}) == len(Reason.__members__)
    texts = [reason.text for reason in Reason]
    assert len(set(texts)) == len(texts)
    assert all(text == text.strip() and text for text in texts)


def test_reasons_fit_the_int8_arrays_that_carry_them():
    assert 0 <= min(Reason) <= max(Reason) <= np.iinfo(np.int8).max


def test_ok_is_zero_and_reads_ok():
    assert Reason(0) is Reason.OK
    assert Reason.OK.text == "ok"


@pytest.mark.parametrize("reason", list(Reason), ids=lambda reason: reason.name)
def test_every_reason_turns_into_its_own_text(reason):
    assert reason_text(reason).item() == reason.text
    assert reason_text(np.int8(reason)).item() == reason.text


def test_reason_text_keeps_the_shape():
    codes = np.array([[Reason.OK, Reason.NO_OVERLAP], [Reason.ONE_CATEGORY, Reason.OK]], dtype=np.int8)
    assert reason_text(codes).tolist() == [["ok", "no overlap"], ["only one category in use", "ok"]]
    assert reason_text(np.zeros((0, 3), dtype=np.int8)).shape == (0, 3)
    assert reason_text(0).shape == ()


def test_the_dtype_of_reason_text_does_not_depend_on_the_reasons():
    few, many = reason_text([Reason.OK]), reason_text(list(Reason))
    assert few.dtype == many.dtype == reason_text([]).dtype
    assert few.dtype.kind == "U"
    assert max(len(reason.text) for reason in Reason) == few.dtype.itemsize // 4  # no text is cut off


# ---------------------------------------------------------------------------------------------------- listing


@pytest.mark.parametrize(
    ("values", "options", "text"),
    [
        ([], {}, ""),
        (["a"], {}, "'a'"),
        (["a", "b", "c"], {}, "'a', 'b', 'c'"),
        (["a", "b", "c", "d"], {}, "'a', 'b', 'c' and 1 more"),
        (range(44), {}, "0, 1, 2 and 41 more"),
        (["0", 0, 0.5, True], {"most": 4}, "'0', 0, 0.5, True"),
        (["a", "b"], {"show": "str"}, "a, b"),
        (["a", "b"], {"most": 1, "show": "str"}, "a and 1 more"),
    ],
)
def test_listing(values, options, text):
    assert listing(values, **options) == text


def test_listing_takes_what_can_be_read_once():
    assert listing(n for n in (1, 2, 3, 4)) == "1, 2, 3 and 1 more"


# --------------------------------------------------------------------------------------------- where warnings


def inside(source, name="xjudge.somewhere", filename="/inside/xjudge/somewhere.py", **known):
    """Run ``source`` as if it stood in a module ``name``, and return what it defines."""
    namespace = {"__name__": name, **known}
    exec(compile(source, filename, "exec"), namespace)
    return namespace


def the_warning(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    (one,) = caught
    return one


def test_a_warning_points_to_the_line_of_the_caller():
    verb = inside(
        "def verb():\n    warn('careful', ProtocolWarning)\n", warn=warn, ProtocolWarning=ProtocolWarning
    )["verb"]
    caught = the_warning(verb)
    assert caught.category is ProtocolWarning
    assert str(caught.message) == "careful"
    assert caught.filename == __file__  # where ``verb`` is called, not where it warns


def test_a_warning_from_deep_inside_points_to_the_caller_too():
    deep = inside(
        "def helper():\n    warn('careful', DroppedWarning)\ndef room():\n    helper()\n",
        warn=warn,
        DroppedWarning=DroppedWarning,
    )
    verb = inside("def verb():\n    room()\n", name="xjudge", filename="/inside/front.py", room=deep["room"])[
        "verb"
    ]
    assert the_warning(verb).filename == __file__


def test_a_module_whose_name_only_starts_like_ours_is_a_caller():
    verb = inside(
        "def verb():\n    warn('careful', ProtocolWarning)\n", warn=warn, ProtocolWarning=ProtocolWarning
    )["verb"]
    script = inside(
        "def run():\n    verb()\n", name="xjudge_scripts", filename="/elsewhere/script.py", verb=verb
    )["run"]
    caught = the_warning(script)
    assert (caught.filename, caught.lineno) == ("/elsewhere/script.py", 2)


def test_a_warning_without_a_frame_of_ours_points_to_who_asked_for_it():
    assert the_warning(lambda: warn("careful", UndefinedWarning)).filename == __file__
