"""Protocols against a slow oracle: MATH.md section 2 applied label by label in plain Python."""

from collections import Counter

import numpy as np
from hypothesis import assume, event, given
from hypothesis import strategies as st

from xjudge.codes import n_raw, raw_index
from xjudge.errors import ProtocolError
from xjudge.protocol import (
    Protocol,
    RecodeTo,
    all_positive,
    at_least,
    cut,
    merge,
    one_of,
    recode_to,
    weighted_share,
)
from xjudge.scale import Scale

# ------------------------------------------------------------------------------------------------- strategies

plain_values = st.one_of(
    st.sampled_from(["a", "b", "c", "0", "1", "CA", "<CA>", "invalid", "", "é x"]),
    st.integers(-2, 5),
    st.sampled_from([0.5, 1.5, 2.25, 1e-7]),
    st.booleans(),
)


def key(value):
    """Type and value, as labels are matched."""
    word = {str: "text", bool: "boolean"}.get(type(value), "number")
    return word, value


categories = st.lists(plain_values, min_size=2, max_size=5, unique_by=key)


@st.composite
def scales(draw):
    kind = draw(
        st.sampled_from(["binary", "nominal", "ordinal", "interval", "pairwise", "tied", "continuous"])
    )
    if kind == "continuous":
        return Scale.continuous()
    if kind == "interval":
        return Scale.interval(sorted(draw(st.lists(st.integers(-4, 8), min_size=2, max_size=5, unique=True))))
    if kind == "ordinal" and draw(st.booleans()):
        return Scale.ordinal(sorted(draw(st.lists(st.integers(-4, 8), min_size=2, max_size=5, unique=True))))
    values = draw(categories)
    if kind == "binary":
        return Scale.binary(*values[:2])
    if kind == "pairwise":
        return Scale.pairwise(*values[:2])
    if kind == "tied":
        assume(len(values) > 2)
        return Scale.pairwise(*values[:3])
    return Scale(kind, tuple(values))


def of(scale):
    """Values, mostly categories of the scale."""
    return st.one_of(st.sampled_from(scale.categories), plain_values) if scale.categories else plain_values


@st.composite
def scale_maps(draw, values):
    kind = draw(st.sampled_from(["at_least", "one_of", "merge", "positive"]))
    if kind == "at_least":
        return at_least(draw(st.one_of(values, st.sampled_from([0.5, 1.5, 2.5]))))
    if kind == "one_of":
        return one_of(*draw(st.lists(values, min_size=1, max_size=3)))
    old = draw(st.lists(values, min_size=1, max_size=5, unique_by=key))
    # a dict takes 1 and True for one key
    assume(len(set(old)) == len(old))
    if kind == "merge":
        return merge({value: draw(values) for value in old})
    new = draw(st.lists(values, min_size=2, max_size=2, unique_by=key))
    return merge({value: draw(st.sampled_from(new)) for value in old}, positive=new[0])


def handlings(values):
    return st.one_of(st.sampled_from(["exclude", "category", "negative"]), values.map(recode_to))


weights_by_name = st.dictionaries(
    st.one_of(st.text(max_size=4), st.integers(-2, 5)), st.floats(0, 1e6), min_size=1, max_size=4
).filter(lambda weights: any(weights.values()))
populations = st.one_of(
    st.text(min_size=1, max_size=5),
    st.dictionaries(
        st.text(max_size=4),
        st.one_of(plain_values, st.lists(plain_values, min_size=1, max_size=3)),
        min_size=1,
        max_size=3,
    ),
)
shares = st.one_of(
    st.floats(0, 1, exclude_min=True),
    st.sampled_from([1, "0.6", "1/3", "0.60", 0.05]),
    st.fractions(1 / 99, 1),
)
rules = st.one_of(shares.map(weighted_share), st.just(all_positive()), st.just("sum"))
extractions = st.one_of(st.none(), st.sampled_from(["argmax", "expected", "sample"]), shares.map(cut))


@st.composite
def protocols(draw, values=plain_values):
    aggregate = draw(st.sampled_from([None, "micro", "macro", "item"]))
    fields = {"aggregate": aggregate}
    if aggregate == "item":
        fields["item_rule"] = draw(rules)
    if aggregate in ("macro", "item"):
        fields["criterion_weights"] = draw(st.one_of(st.none(), weights_by_name))
    return Protocol(
        scale_map=draw(st.one_of(st.none(), scale_maps(values))),
        population=draw(st.one_of(st.none(), populations)),
        ca=draw(handlings(values)),
        invalid=draw(handlings(values)),
        tie=draw(st.one_of(st.just("category"), handlings(values))),
        extraction=draw(extractions),
        **fields,
    )


@st.composite
def fitted(draw):
    """A scale and a protocol that names categories of it, and often asks too much of it."""
    scale = draw(scales())
    return scale, draw(protocols(of(scale)))


@st.composite
def carried(draw):
    """A scale with categories and a protocol that it nearly always can carry."""
    scale = draw(scales().filter(lambda scale: scale.kind != "continuous"))
    own = st.sampled_from(scale.categories)
    kinds = [None, "one_of", "merge"] + ["at_least"] * (scale.kind in ("binary", "ordinal", "interval"))
    kind = draw(st.sampled_from(kinds))
    scale_map = None
    if kind == "at_least":
        scale_map = at_least(draw(st.sampled_from(scale.categories[1:])))
    elif kind == "one_of":
        scale_map = one_of(*draw(st.permutations(scale.categories))[1:])
        if draw(st.booleans()):
            scale_map = one_of(*scale_map.values[:1])
    elif kind == "merge":
        old = draw(st.lists(own, min_size=1, max_size=scale.n_categories - 1, unique_by=key))
        assume(len(set(old)) == len(old))
        scale_map = merge({value: draw(st.one_of(own, plain_values)) for value in old})
    handling = st.one_of(st.sampled_from(["exclude", "category"]), own.map(recode_to))
    if kind in ("at_least", "one_of") or (scale.kind == "binary"):
        handling = st.one_of(st.just("negative"), handling)
    tie = st.just("category") if scale.tie is None else st.one_of(handling, st.just("exclude"))
    return scale, Protocol(scale_map=scale_map, ca=draw(handling), invalid=draw(handling), tie=draw(tie))


# ---------------------------------------------------------------------------------------------- going through


@given(protocols())
def test_json_round_trip(protocol):
    again = Protocol.from_json(protocol.to_json())
    assert again == protocol
    assert hash(again) == hash(protocol)
    assert again.to_json() == protocol.to_json()
    assert again.label == protocol.label


@given(protocols())
def test_repr_is_one_line_and_evaluates(protocol):
    text = repr(protocol)
    assert "\n" not in text
    assert eval(text) == protocol


@given(protocols(), protocols())
def test_equal_exactly_where_every_part_is_the_same_by_type_and_value(one, other):
    # the text tells 1 from True and "1", which == of Python does not
    assert (one == other) == (repr(one) == repr(other))
    if one == other:
        assert hash(one) == hash(other)


@given(st.data())
def test_a_grid_is_the_product_of_its_choices(data):
    ca = data.draw(st.lists(handlings(plain_values), min_size=1, max_size=3))
    maps = data.draw(st.lists(st.one_of(st.none(), scale_maps(plain_values)), min_size=1, max_size=3))
    grid = Protocol.grid(scale_map=maps, ca=ca)
    assert grid == [Protocol(scale_map=scale_map, ca=how) for scale_map in maps for how in ca]


# -------------------------------------------------------------------------------------------- the slow oracle


class RefusedError(Exception):
    """The protocol cannot be applied; holds a word of every reason."""


class Plain:
    """A protocol applied to one label after the other.

    Labels are categories of the data, or one of the words missing, ca, invalid wrapped in a tuple.
    """

    def __init__(self, scale, protocol):
        self.scale, self.protocol = scale, protocol
        self.reasons = []
        self.whatever_the_map()
        if protocol.scale_map is not None:
            self.map_categories()
        else:
            self.names = {key(value): value for value in scale.categories}
            self.binary = list(scale.categories) if scale.kind == "binary" else None
            self.ordered = (
                scale.kind in ("binary", "ordinal", "interval", "continuous") or len(self.names) == 2
            )
        if "map" not in self.reasons:
            self.with_the_map()
        if self.reasons:
            raise RefusedError(self.reasons)

    def whatever_the_map(self):
        protocol, scale = self.protocol, self.scale
        if protocol.tie != "category" and scale.tie is None:
            self.reasons.append("tie")
        if scale.kind == "continuous":
            self.reasons += [name for name in ("ca", "invalid") if getattr(protocol, name) != "exclude"]
            if protocol.extraction is not None:
                self.reasons.append("extraction")
        elif protocol.extraction == "expected" and scale.kind in ("nominal", "pairwise"):
            self.reasons.append("extraction")

    def map_categories(self):
        """New name of every category of the data; the pair (negative, positive) where there is one."""
        chosen, scale = self.protocol.scale_map, self.scale
        own = [key(value) for value in scale.categories]
        self.binary, self.ordered = None, False
        try:
            if scale.kind == "continuous":
                raise RefusedError
            if chosen.kind == "at_least":
                positive = self.at_least(chosen.values[0])
            elif chosen.kind == "one_of":
                if any(key(value) not in own for value in chosen.values):
                    raise RefusedError
                positive = {key(value) for value in chosen.values}
            else:
                self.merge(chosen, own)
                return
            if not 0 < len(positive) < len(own):
                raise RefusedError
        except RefusedError:
            self.reasons.append("map")
            return
        words = ("negative", "positive")  # names of an oracle; only which is which matters
        self.names = {place: words[place in positive] for place in own}
        self.binary = list(words)
        self.ordered = True

    def at_least(self, threshold):
        scale = self.scale
        if scale.kind in ("nominal", "pairwise", "continuous"):
            raise RefusedError
        own = [key(value) for value in scale.categories]
        if key(threshold) in own:
            return set(own[own.index(key(threshold)) :])
        numbers = all(word == "number" for word, _ in [*own, key(threshold)])
        if not numbers or list(scale.categories) != sorted(scale.categories):
            raise RefusedError
        return {key(value) for value in scale.categories if value >= threshold}

    def merge(self, chosen, own):
        if any(key(old) not in own for old, _ in chosen.pairs):
            raise RefusedError
        renamed = {key(old): new for old, new in chosen.pairs}
        self.names = {key(value): renamed.get(key(value), value) for value in self.scale.categories}
        kinds = []
        for name in self.names.values():
            if key(name) not in [key(other) for other in kinds]:
                kinds.append(name)
        if len(kinds) < 2:
            raise RefusedError
        if chosen.values:
            positive = chosen.values[0]
            if len(kinds) > 2 or key(positive) not in [key(name) for name in kinds]:
                raise RefusedError
            (negative,) = [name for name in kinds if key(name) != key(positive)]
            self.binary = [negative, positive]
        elif self.scale.kind == "binary":
            self.binary = kinds
        along = [[key(name) for name in kinds].index(key(name)) for name in self.names.values()]
        in_order = self.scale.kind in ("ordinal", "interval") and along == sorted(along)
        self.ordered = bool(self.binary) or in_order or len(kinds) == 2

    def with_the_map(self):
        protocol, scale = self.protocol, self.scale
        if scale.kind != "continuous":
            for name in ("tie", "ca", "invalid"):
                how = getattr(protocol, name)
                if name == "tie" and (how == "category" or scale.tie is None):
                    continue
                if how == "negative" and self.binary is None:
                    self.reasons.append(name)
                if isinstance(how, RecodeTo) and self.recoded(how) is None:
                    self.reasons.append(name)
        if scale.tie is not None and protocol.tie != "category":
            left = self.reachable()
            if len(left) < 2 and not {"tie", "ca", "invalid"} & set(self.reasons):
                self.reasons.append("tie")
            self.ordered = self.ordered or len(left) == 2
        rule = protocol.item_rule
        if rule is not None and rule.kind != "sum" and self.binary is None:
            self.reasons.append("item_rule")
        if rule is not None and rule.kind == "sum" and not self.ordered:
            self.reasons.append("item_rule")
        is_cut = protocol.extraction is not None and not isinstance(protocol.extraction, str)
        if is_cut and self.binary is None and scale.kind != "continuous":
            self.reasons.append("extraction")

    def recoded(self, how):
        """Name of the category that ``recode_to`` means: of the protocol first, then of the data."""
        words = [] if self.protocol.scale_map is not None and self.invented() else list(self.names.values())
        for name in words:
            if key(name) == key(how.category):
                return name
        return self.names.get(key(how.category))

    def invented(self):
        """Whether the protocol's categories have names that no test value has (">=3", "not a")."""
        return self.protocol.scale_map.kind in ("at_least", "one_of")

    def reachable(self):
        """Names that some label gets."""
        labels = [*self.scale.categories, ("ca",), ("invalid",)]
        wrong = {key(self.scale.tie): "tie", key(("ca",)): "ca", key(("invalid",)): "invalid"}
        found = [self(label) for label in labels if wrong.get(key(label)) not in self.reasons]
        return {key(name) for name in found if name is not None and not isinstance(name, tuple)}

    def __call__(self, label):
        """Name of the category, an outcome that is a category as a tuple, or None where the case leaves."""
        if label == ("missing",):
            return None
        if label == ("ca",):
            how = self.protocol.ca
        elif label == ("invalid",):
            how = self.protocol.invalid
        elif self.scale.tie is not None and key(label) == key(self.scale.tie):
            how = self.protocol.tie
            if how == "category":
                return self.names[key(label)]
        else:
            return self.names[key(label)]
        if how == "exclude":
            return None
        if how == "category":
            return None if self.protocol.aggregate == "item" else ("outcome", label[0])
        return self.binary[0] if how == "negative" else self.recoded(how)


def word_of(reason):
    return {
        "map": ("at_least(", "one_of(", "merge("),
        "tie": ("`tie=",),
        "ca": ("`ca=",),
        "invalid": ("`invalid=",),
        "item_rule": ("item_rule=",),
        "extraction": ("extraction=",),
    }[reason]


def told(message, reason, protocol):
    if reason == "map":
        return protocol.scale_map is not None and repr(protocol.scale_map) in message
    return any(word in message for word in word_of(reason))


def names_nothing_invented(scale, protocol):
    """Leave out values that meet a name which a scale map invents: "a" is the positive of one_of("a")."""
    chosen = protocol.scale_map
    if chosen is None or chosen.kind == "merge":
        return True
    try:
        mapped, _ = chosen.apply(scale)
    except ProtocolError:
        return True
    asked = [how for how in (protocol.ca, protocol.invalid, protocol.tie) if isinstance(how, RecodeTo)]
    invented = {key(name) for name in mapped.categories}
    return not any(key(how.category) in invented for how in asked)


@given(fitted())
def test_a_protocol_is_refused_exactly_where_the_scale_cannot_carry_it(case):
    scale, protocol = case
    assume(names_nothing_invented(scale, protocol))
    try:
        Plain(scale, protocol)
        expected = []
    except RefusedError as refused:
        expected = list(dict.fromkeys(refused.args[0]))
    event(f"refused for {len(expected)}")
    try:
        protocol.resolve(scale)
        message = ""
    except ProtocolError as error:
        message = str(error)
        assert message
    assert bool(message) == bool(expected)
    for reason in ("tie", "ca", "invalid", "item_rule", "extraction"):
        assert told(message, reason, protocol) == (reason in expected), (message, expected)
    if "map" in expected:
        assert told(message, "map", protocol)


@given(carried(), st.data())
def test_the_collapsed_table_counts_the_labels_that_were_mapped_one_by_one(case, data):
    scale, protocol = case
    assume(names_nothing_invented(scale, protocol))
    try:
        plainly = Plain(scale, protocol)
    except RefusedError:
        assume(False)
    labels = [*scale.categories, ("missing",), ("ca",), ("invalid",)]
    pairs = data.draw(st.lists(st.tuples(st.sampled_from(labels), st.sampled_from(labels)), max_size=40))

    def raw_place(label):
        if isinstance(label, tuple):
            return raw_index(label[0], scale.n_categories)
        return [key(value) for value in scale.categories].index(key(label))

    raw = np.zeros((n_raw(scale.n_categories),) * 2, dtype=np.int64)
    for one, other in pairs:
        raw[raw_place(one), raw_place(other)] += 1
    resolved = protocol.resolve(scale)
    collapsed = resolved.matrix.T @ raw @ resolved.matrix

    # which place of the protocol's scale each name of the oracle is: told by a label that gets it
    place = {}
    for label in labels:
        name = plainly(label)
        row = resolved.matrix[raw_place(label)]
        assert row.sum() == (name is not None)
        if name is not None:
            place.setdefault(named(name), int(row.argmax()))
            assert place[named(name)] == int(row.argmax())
    assert len(set(place.values())) == len(place)
    counted = Counter()
    for one, other in pairs:
        if plainly(one) is not None and plainly(other) is not None:
            counted[place[named(plainly(one))], place[named(plainly(other))]] += 1
    assert collapsed.sum() == sum(counted.values())
    for (row, column), count in counted.items():
        assert collapsed[row, column] == count
    event(f"{len(counted)} cells")


def named(name):
    return name if isinstance(name, tuple) else key(name)


@given(carried())
def test_names_and_order_of_the_protocols_categories(case):
    scale, protocol = case
    assume(names_nothing_invented(scale, protocol))
    try:
        plainly = Plain(scale, protocol)
    except RefusedError:
        assume(False)
    resolved = protocol.resolve(scale)
    assert len({key(name) for name in resolved.scale.categories}) == resolved.scale.n_categories
    for label in scale.categories:
        name = plainly(label)
        if name is None:
            continue
        shown = resolved.scale.categories[int(resolved.matrix[resolved.raw.index(label)].argmax())]
        if plainly.binary is not None and resolved.scale.kind == "binary":
            assert (key(shown) == key(resolved.scale.positive)) == (key(name) == key(plainly.binary[1]))
        if protocol.scale_map is None or protocol.scale_map.kind == "merge":
            assert key(shown) == key(name)


@given(carried())
def test_the_matrix_sends_every_raw_place_to_one_category_or_to_none(case):
    scale, protocol = case
    try:
        resolved = protocol.resolve(scale)
    except ProtocolError:
        assume(False)
    matrix = resolved.matrix
    assert matrix.shape == (n_raw(scale.n_categories), resolved.scale.n_categories)
    assert set(np.unique(matrix)) <= {0, 1}
    assert (matrix.sum(axis=1) <= 1).all()
    assert not matrix[raw_index("missing", scale.n_categories)].any()
    assert (matrix.sum(axis=0) >= 1).all()  # no category of the protocol is out of reach
    categories = [target for target in resolved.targets if target >= 0]
    assert categories == [int(row.argmax()) for row in matrix if row.any()]
