"""Edge lists as text, in every spelling, read and refused."""

from __future__ import annotations

import gzip
from functools import partial
from unicodedata import normalize

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import csv as arrow_csv

from filing import HTML, PNG, edges, named_edges, read, refused
from pdgnn.io.text import named_rows


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "0,1\n1,4\n"),
        ("a.csv", "0,1\n1,4"),
        ("a.CSV", "0,1\n1,4\n"),
        ("a.csv", "0;1\n1;4\n"),
        ("a.csv", "0\t1\n1\t4\n"),
        ("a.csv", "0, 1\n1 , 4\n"),
        ("a.csv", '"0","1"\n"1","4"\n'),
        ("a.csv", "source,target\n0,1\n1,4\n"),
        ("a.csv", "target,source\n1,0\n4,1\n"),
        ("a.csv", "head one, head two\n0, 1\n1, 4\n"),
        ("a.csv", "id,From Node ID,To Node ID,kind\n7,0,1,x\n8,1,4,y\n"),
        ("a.csv", "\ufeffsrc,dst\r\n0,1\r\n\r\n1,4\r\n"),
        ("a.csv", "0,1\r1,4\r"),
        ("a.csv", "# made by hand\n% and checked\n\n0,1\n\n1,4\n"),
        ("a.csv", "0.0,1.0\n1.0,4.0\n"),
        ("a.csv", "0.0,1\n1.0,4\n"),
        ("a.csv", "0,1.0\n1.0,4\n"),
        ("a.csv", "0.0,1.000e+00\n1.,4.000e+00\n"),
        ("a.csv", "left,right\n0.0,1.0\n1.0,4.0\n"),
        ("a.tsv", "0\t1\n1\t4\n"),
        ("a.tsv", "u\tv\n0\t1\n1\t4\n"),
        ("a.txt", "0 1\n1 4\n"),
        ("a.txt", "0,1\n1,4\n"),
        ("a.txt", "# FromNodeId\tToNodeId\n0\t1\n1\t4\n"),
        ("a.edges", "% sym unweighted\n  0   1 \n\t1 \t 4\n\n"),
        ("a.edgelist", "0.000e+00 1.000e+00\n1.000e+00 4.000e+00\n"),
        ("a.csv.gz", gzip.compress(b"0,1\n1,4\n", mtime=0)),
        ("a.tsv.gz", gzip.compress(b"0\t1\n1\t4\n", mtime=0)),
        ("a.txt.gz", gzip.compress(b"0 1\n", mtime=0) + gzip.compress(b"1 4\n", mtime=0)),
    ],
)
def test_the_same_two_edges_in_every_spelling(tmp_path, name, content):
    raw = read(tmp_path, name, content)
    assert edges(raw) == [(0, 1), (1, 4)]
    assert raw.edge_index.dtype == np.int64
    assert raw.num_nodes == 5
    assert raw.edge_weight is None
    assert raw.node_ids is None


@pytest.mark.parametrize(
    "content",
    [
        "0,1,0.5\n1,2,3\n",
        "source,target,weight\n0,1,0.5\n1,2,3\n",
        "w,to,from\n.5,1,0\n3e0,2,1\n",
        "a,b,strength\n0,1,0.5\n1,2,3\n",
        "Source,Target,Type,Id,Weight\n0,1,Undirected,0,0.5\n1,2,Undirected,1,3\n",
    ],
)
def test_weights_come_from_the_third_column_or_from_the_one_named_so(tmp_path, content):
    raw = read(tmp_path, "a.csv", content)
    assert edges(raw) == [(0, 1), (1, 2)]
    assert raw.edge_weight.dtype == np.float64
    assert raw.edge_weight.tolist() == [0.5, 3.0]


def test_text_ids_are_numbered_in_order_of_first_appearance(tmp_path):
    raw = read(tmp_path, "a.csv", "source,target\ncid,ann\nbob,cid\nann,dan\n")
    assert raw.node_ids.tolist() == ["cid", "ann", "bob", "dan"]
    assert edges(raw) == [(0, 1), (2, 0), (1, 3)]
    assert raw.num_nodes == 4


BIG = "9.00719925474099"


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ("a,1\n2,3\n", ["a", "1", "2", "3"]),  # a mix is text, and the first row no header
        ("007,7\n", ["007", "7"]),
        ("0x10,16\n", ["0x10", "16"]),
        ("-1,2\n", [-1, 2]),
        ("5,100001\n", [5, 100001]),
        ("99999999999999999999,1\n", ["99999999999999999999", "1"]),
        ("u,v\nv,w\nw,u\n", ["u", "v", "w"]),  # no header: they are nodes
        ("alice,bob\n", ["alice", "bob"]),
        ('"New York, NY","#1"\n', ["New York, NY", "#1"]),
        ("é,b\n", ["é", "b"]),
        ("a,1.0\n1.0,2.0\n", ["a", "1.0", "2.0"]),  # both columns decide together
        ("1.0,a\n2.0,1.0\n", ["1.0", "a", "2.0"]),
        ("1,1.0\nx,1\n", ["1", "1.0", "x"]),
        ("0.5,1.0\n1.0,2.0\n", ["0.5", "1.0", "2.0"]),
        ("9007199254740992.0,9007199254740993.0\n", [2**53, 2**53 + 1]),
        ("9007199254740992,9007199254740993.0\n", [2**53, 2**53 + 1]),
        (f"{BIG}2e+15,{BIG}3e+15\n", [f"{BIG}2e+15", f"{BIG}3e+15"]),
        (f"{BIG}1e+15,1.e+0\n", [2**53 - 1, 1]),
        ("99999999999999999999.0,1.0\n", ["99999999999999999999.0", "1.0"]),
        ("-1.0,2.0\n", [-1, 2]),
        ("007.0,7.0\n", ["007.0", "7.0"]),
    ],
)
def test_ids_that_are_not_numbers_from_zero_on_are_names(tmp_path, content, names):
    assert read(tmp_path, "a.csv", content).node_ids.tolist() == names


def test_a_name_in_two_unicode_forms_is_refused(tmp_path):
    one, other = "Jos\u00e9", "Jose\u0301"  # as two systems write what looks the same
    refused(
        tmp_path, "a.csv", f"{one},Ann\nAnn,{other}\n", "the id 'Jos\u00e9' is written in several"
    )
    assert read(tmp_path, "a.csv", f"{other},Ann\nAnn,Jose\n").num_nodes == 3


def test_sparse_ids_are_renumbered_only_beyond_the_bound(tmp_path):
    assert read(tmp_path, "a.csv", "0,100000\n").num_nodes == 100_001
    assert read(tmp_path, "a.csv", "0,100001\n").num_nodes == 2
    pairs = np.arange(10_002).repeat(2)[1:-1].reshape(-1, 2)  # a path of 10,001 edges
    text = "\n".join(f"{u},{v}" for u, v in pairs)
    assert read(tmp_path, "a.csv", text + "\n0,100019").num_nodes == 100_020
    assert read(tmp_path, "a.csv", text + "\n0,100021").num_nodes == 10_003


def test_a_text_file_with_names_and_weights(tmp_path):
    raw = read(tmp_path, "a.txt", '"New York" Paris 2\nParis\tRome   1\n')
    assert named_edges(raw) == [("New York", "Paris"), ("Paris", "Rome")]
    assert raw.edge_weight.tolist() == [2.0, 1.0]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "", "empty"),
        ("a.csv", "\n \n", "no rows in it, only comments or blank"),
        ("a.csv", "# nothing\n", "no rows in it, only comments or blank"),
        ("a.csv", "source,target\n", "no edges in it; give at least one row"),
        ("a.csv", "0\n1\n", "first row has no comma or semicolon or tab"),
        ("a.csv", "0 1\n", "first row has no comma"),
        ("a.tsv", "0 1\n", "first row has no tab"),
        ("a.txt", "0\n1\n", "one column only; an edge needs two"),
        ("a.csv", "0,1\n2,3,4\n", "row '2,3,4' has 3 columns, not 2; every row needs the same"),
        ("a.csv", "0,1,2\n3,4\n", "row '3,4' has 2 columns, not 3"),
        ("a.csv", '0,1\n"2,3\n', "has 1 columns, not 2"),
        ("a.csv", "0,1\n# and more\n2,3\n", "line 2 is a comment amid the rows"),
        ("a.csv", "% top\n0,1\n1,2\n% and more\n", "line 4 is a comment amid the rows"),
        ("a.csv", "0,1\n,2\n", "row 2 has no source; fill it in"),
        ("a.csv", "source,target\n0,1\n2,\n", "row 2 has no target"),
        ("a.csv", "ann,bob\ncid,  \n", "row 2 has no target"),
        ("a.csv", "0,1,\n", "row 1 has no weight"),
        ("a.csv", "0,1,1\n1,2,heavy\n", "weight in row 2 is 'heavy'; weights must be numbers"),
        ("a.csv", "0,1,heavy\n1,2,1\n", "weight in row 1 is 'heavy'"),
        ("a.txt", "0 1 {}\n", "weight in row 1 is '{}'"),
        ("a.csv", "0,1,1\n1,2,nan\n", "weight in row 2 is nan; weights must be finite"),
        ("a.csv", "0,1,inf\n", "weight in row 1 is inf"),
        ("a.csv", "0,1,-2\n", "weight in row 1 is -2.0; weights must be finite and not negative"),
        ("a.csv", "0,1,1e101\n", "the weights go beyond 1e-100 to 1e100; rescale them"),
        ("a.csv", "0,1,2,3\n", "which of the 4 columns .* give a header"),
        ("a.csv", "weight,a,b\n1,2,3\n", "which of the 3 columns"),
        ("a.csv", "source,target,year\n0,1,1999\n", "column 'year' is unknown; name it 'weight'"),
        ("a.csv", "src,source,target\n0,1,2\n", "several columns could be the source"),
        ("a.csv", PNG, "binary data, not text"),
        ("a.csv", "0,1\n".encode("utf-16"), "binary data, not text; save the table as UTF-8"),
        ("a.csv", b"caf\xe9,b\n", "byte 3 is not UTF-8"),
        ("a.csv", HTML, "web page or XML"),
        ("a.csv", "0,1\n" + "x" * (5 << 20), "cannot be split into rows|has 1 columns"),
        ("a.csv", "0," + "x" * 140_000, "first row cannot be split into columns"),
        ("a.csv.gz", gzip.compress(b"0,1\n", mtime=0)[:-5], "not a whole gzip file"),
        ("a.csv.gz", b"0,1\n", "not a whole gzip file"),
        ("a.csv.gz", gzip.compress(PNG, mtime=0), "binary data"),
        ("a.csv.gz", gzip.compress(b"", mtime=0), "no rows in it"),
        ("a.xlsx", b"PK\x03\x04", "files of this kind are not read; use one of .csv"),
        ("edges", b"0,1\n", "files of this kind are not read"),
        ("a.parquet.gz", b"x", "files of this kind are not read"),
    ],
)
def test_bad_text_is_refused(tmp_path, name, content, message):
    refused(tmp_path, name, content, message)


NAME = st.text(
    st.characters(codec="utf-8", exclude_categories=["C", "Z"], exclude_characters='",'),
    min_size=1,
    max_size=6,
).map(partial(normalize, "NFC"))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(NAME, NAME), min_size=1, max_size=12), st.sampled_from(["csv", "tsv"]))
def test_any_names_survive_the_way_through_a_file(tmp_path, pairs, suffix):
    separator = {"csv": ",", "tsv": "\t"}[suffix]
    rows = [("source", "target"), *((f'"x{u}"', f'"x{v}"') for u, v in pairs)]
    raw = read(tmp_path, f"a.{suffix}", "\n".join(separator.join(row) for row in rows))
    assert named_edges(raw) == [(f"x{u}", f"x{v}") for u, v in pairs]
    appeared = list(dict.fromkeys(f"x{name}" for pair in pairs for name in pair))
    assert raw.node_ids.tolist() == appeared


def test_values_of_several_lines_may_be_anywhere_in_a_large_file(tmp_path):
    words = "word " * 40
    rows = [f'p{i},"{words}\n# second\n% third, line",{i}' for i in range(20_000)]
    path = tmp_path / "nodes.csv"
    path.write_text("\n".join(["id,bio,x", *rows]))
    assert path.stat().st_size > 1 << 22  # more than one block is parsed
    table = named_rows(path, 10**9)
    assert table.column("x").to_pylist() == [str(i) for i in range(20_000)]
    assert set(table.column("bio").to_pylist()) == {f"{words}\n# second\n% third, line"}


def test_a_comment_after_a_value_of_several_lines_is_still_refused(tmp_path):
    content = 'source,target\n"a\n#1",b\n# and more\nc,d\n'
    refused(tmp_path, "a.csv", content, "line 4 is a comment amid the rows")


def test_rows_are_parsed_on_one_thread(tmp_path, monkeypatch):
    # Others may still run after an error, and abort the process when it ends.
    given, parse = [], arrow_csv.read_csv

    def noted(*args, read_options, **options):
        given.append(read_options.use_threads)
        return parse(*args, read_options=read_options, **options)

    monkeypatch.setattr(arrow_csv, "read_csv", noted)
    refused(tmp_path, "a.csv", "0,1\n2,3,4\n", "row '2,3,4' has 3 columns")
    assert given == [False]
