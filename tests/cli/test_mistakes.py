"""Mistakes of new users: each gets exit code 2 and one line in the words of the field, and no more."""

import re
import shlex
import subprocess
import sys

import numpy as np
import pytest
from shell import called

import evenrank as er

# files are made by the fixture `files`; each row: what is typed, and what the message says
MISTAKES = [
    line.split(" -> ")
    for line in """
evalute ranks.parquet -> no such command; got 'evalute'; did you mean evaluate?
rnak nations/transe -> no such command; got 'rnak'; did you mean rank?
ranks.parquet -> a file comes after a command
frobnicate -> no such command; got 'frobnicate'; see evenrank --help
data lst -> no such command; got 'lst'; did you mean list?
atlas shwo wn18rr -> no such command; got 'shwo'; did you mean show?
import pikeen ranks.npz -> no such command; got 'pikeen'; did you mean pykeen?
import ranks.npz -> no such command; got 'ranks.npz'
--verison -> no such option; got --verison; did you mean --version?
-z -> no such option; got -z; see evenrank --help
evaluate ranks.parquet --metrics mrr -> no such option; got --metrics; did you mean --metric
evaluate ranks.parquet --tie expected -> no such option; got --tie; did you mean --ties
compare a.parquet b.parquet --confidence 0.9 -> no such option; got --confidence
rank nations/transe --data nations --sides-only -> no such option; got --sides-only
chance mrr --dataset wn18rr -> no such option; got --dataset; did you mean --data
adjust mrr=0.4 --datas wn18rr -> no such option; got --datas; did you mean --data
baseline wn18rr --fliter none -> no such option; got --fliter; did you mean --filter
report a.parquet --output x.html -> no such option; got --output; did you mean --out
estimate sampled.parquet --gama 1 -> no such option; got --gama; did you mean --gamma
data list --jason -> no such option; got --jason
data list nations -> too many arguments; got nations; see evenrank data list --help
demo now -> too many arguments; got now
baseline wn18rr fb15k237 -> too many arguments; got fb15k237
chance mrr hits@10 --data wn18rr -> too many arguments; got hits@10
import pykeen ranks.npz more.npz -> too many arguments; got more.npz
evaluate -> no file of ranks; run evenrank evaluate FILE
rank -> MODEL is missing: models saved by evenrank
rank nations/transe -> --data is missing: graph: a folder, or a name
compare -> RANKS is missing: files of ranks
report -> RANKS is missing: files of ranks
estimate -> RANKS is missing: files of sampled ranks
chance -> METRIC is missing: a metric such as mrr
adjust -> VALUES is missing: published values
baseline -> DATA is missing: data set, one of evenrank atlas list
atlas show -> DATA is missing
data show -> GRAPH is missing
data check -> GRAPH is missing
data fetch -> NAMES is missing
atlas build -> FOLDERS is missing
import trec run.txt -> --qrels is missing
import trec run.txt qrels.txt -> --qrels is missing
import anyburl -> FILE is missing
evaluate ranks.parquet --level -> --level needs a value
evaluate ranks.parquet --sort mrr -> --sort orders groups, or several files; got --sort; add --by KEY
evaluate ranks.parquet --min-count 5 -> --min-count counts the targets of groups; got --min-count; add
evaluate ranks.parquet --by side --reverse -> --reverse needs --sort; got --reverse; add --sort METRIC
evaluate ranks.parquet --by side --sort mmr -> unknown metric; got 'mmr'
evaluate a.parquet b.parquet --sort b:mrr -> sorted by one of the files; got --sort b:mrr; add --by KEY
evaluate ranks.parquet -m z(mrr -> a closing bracket is missing; got 'z(mrr'
evaluate ranks.parquet --by side -m mrr --sort mr -> mr was not evaluated; add it to --metric
evaluate ranks.parquet --by side --min-count 0 -> --min-count must be at least 1; got 0
evaluate ranks.parquet --by side --min-count 99999 -> no group has enough targets; got at most
evaluate a.parquet b.parquet --by side --sort c:mrr -> no such model; got 'c'; allowed: a, b, difference
evaluate ranks.parquet --averages --sort mrr -> --averages shows averages in a fixed order; got --sort
evaluate ranks.parquet -m --by relation -> --metric needs a value; got the option --by
evaluate ranks.parquet -m -> -m needs a value
evaluate ranks.parquet --quiet=yes -> --quiet takes no value
evaluate none.parquet -> no such file; got none.parquet
compare a.parquet none.parquet -> no such file; got none.parquet
report none.parquet -> no such file; got none.parquet
estimate none.parquet -> no such file; got none.parquet
rank none.safetensors --data nations -> no such file, folder or bundled model; got none.safetensors
import pykeen none.npz -> no such file; got none.npz
import anyburl none --data nations -> no such file
import lists none --data nations -> no such file
import trec none --qrels qrels.txt --candidates 9 -> no such file
import libkge none --candidates 9 -> no such file
chance mrr --sizes none.csv -> --sizes is neither a file nor numbers of candidates; got 'none.csv'
compare FOLDER b.parquet -> a folder is not a file of ranks; got FOLDER
report FOLDER -> a folder is not a file of ranks
estimate FOLDER -> a folder is not a file of ranks
import ogb FOLDER -> cannot read FOLDER; got a folder; pass a regular file
evaluate FOLDER -> no file of ranks in this folder
evaluate notes.txt -> notes.txt
evaluate picture.png -> not a file of ranks; got picture.png; allowed: .parquet, .csv, .tsv
evaluate answers.jsonl -> not a file of ranks; got answers.jsonl; allowed: .parquet, .csv, .tsv
compare answers.jsonl a.parquet -> not a file of ranks; got answers.jsonl; allowed: .parquet, .csv
evaluate broken.parquet -> cannot read broken.parquet; got no Parquet file, or a damaged one
evaluate text.csv -> text.csv
rank ranks.parquet --data nations -> the format of this checkpoint is not recognised
rank nations/transe --data ranks.parquet -> ranks.parquet
evaluate empty.csv -> empty.csv
evaluate nothing.csv -> metrics need at least one rank; got no ranks
evaluate nan.csv -> nan.csv
evaluate negative.csv -> negative.csv
evaluate zero.csv -> zero.csv
evaluate text-ranks.csv -> text-ranks.csv
evaluate above.csv -> above.csv
evaluate few.csv --candidates 2 -> few.csv
evaluate few.csv --candidates 0 -> must be at least 1; got 0
evaluate few.csv --candidates many -> --candidates must be a whole number; got 'many'
evaluate ranks.parquet -m mmr -> unknown metric; got 'mmr'; did you mean
evaluate ranks.parquet -m hits@0 -> hits@k needs a whole number k >= 1; got 0
evaluate ranks.parquet -m hits@ten -> hits@k requires a k; got 'hits@ten'
evaluate ranks.parquet -m mrr,hist@10 -> unknown metric; got 'hist@10'; did you mean
evaluate ranks.parquet -m mrr,,mr -> unknown metric; got ''
evaluate ranks.parquet -m 'z(mrr' -> z(mrr
evaluate ranks.parquet -m 'recal@10' -> unknown metric; got 'recal@10'
evaluate ranks.parquet -m 'recall@10' -> with one answer per query, this is hits@10
chance mmr --data wn18rr -> unknown metric; got 'mmr'
adjust mmr=0.4 --data wn18rr -> unknown metric; got 'mmr'
evaluate ranks.parquet --ties mean -> unknown value of --ties; got 'mean'; allowed: expected, realistic
evaluate ranks.parquet --ties Realistic -> did you mean realistic?
evaluate ranks.parquet --format xml -> unknown value of --format; got 'xml'; allowed: table, json
evaluate ranks.parquet --interval normal -> unknown value of --interval; got 'normal'; allowed: delta
compare a.parquet b.parquet --test anova -> unknown value of --test; got 'anova'; allowed:
compare a.parquet b.parquet --correction fdr -> unknown value of --correction; got 'fdr'; allowed:
estimate sampled.parquet --estimator mean -> unknown value of --estimator; got 'mean'; allowed:
rank nations/transe --data nations --sides left -> unknown value of --sides; got 'left'; allowed: both
rank nations/transe --data nations --unseen remove -> unknown value of --unseen; got 'remove'
rank nations/transe --data nations --protocol openke2 -> unknown value of --protocol; got 'openke2'
rank nations/transe --data nations --filter dev -> no such split; got 'dev'
rank nations/transe --data nations --split tset -> no such split; got 'tset'
rank nations/transe --data nation -> no such folder or benchmark; got 'nation'
rank nations/transe --data umls -> model and graph
rank nations/transe --data nations --time aware -> the triples of nations have no times; leave out --time
rank nations/transe --data nations --time never -> unknown value of --time; got 'never'; allowed: aware
rank nations/transe --data nations --candidates 0 -> unknown candidates; got '0'
rank nations/transe --data nations --candidates sampled:0 -> sampled
rank nations/transe --data nations --threads 0 -> threads must be
rank nations/transe --data nations --threads two -> --threads must be a whole number; got 'two'
rank nations/transe --data nations --memory lots -> memory must be a size
rank nations/transe --data nations --dask local -> a cluster needs a checkpoint folder
chance mrr --data nowhere -> the atlas has no such data set; got 'nowhere'
chance mrr --data wn18 --filter train -> unknown value of --filter; got 'train'; allowed: all, none
chance mrr -> needs either a data set or numbers of candidates; got neither
chance mrr --data wn18rr --sizes 5 -> numbers of candidates; got both
chance mrr --sizes 0 -> numbers of candidates must be at least 1; got 0
chance mrr --sizes -5 -> got -5
chance mrr --sizes 14541x -> --sizes is neither a file nor numbers of candidates; got '14541x'; write
chance mrr --sizes 5,14541x -> got '14541x' in '5,14541x'; write '14541x40932'
chance mrr --sizes x5 -> --sizes is neither a file nor numbers of candidates; got 'x5'
chance mrr --sizes 5x2x3 -> --sizes is neither a file nor numbers of candidates; got '5x2x3'
chance mrr --sizes 5x-2 -> --sizes is neither a file nor numbers of candidates; got '5x-2'
chance mrr --sizes 5x2.5 -> --sizes is neither a file nor numbers of candidates; got '5x2.5'
chance mrr --sizes 1_000 -> --sizes is neither a file nor numbers of candidates; got '1_000'
chance mrr --sizes 5x0 -> impossible number of targets; got 0
chance mrr --sizes '5, ,6' -> --sizes is neither a file nor numbers of candidates; got '' in '5, ,6'
adjust mrr=0.4 --sizes 14541x -> --sizes is neither a file nor numbers of candidates; got '14541x'
adjust mrr=0.4 --sizes 14,541x40,932 -> a comma in --sizes separates numbers of candidates
chance mrr --sizes 100x2,000 -> got '100x2,000'; write '100x2000', or repeat the tasks
chance mrr --sizes 14541*40932 -> --sizes is neither a file nor numbers of candidates
chance mrr --sizes 5 --samples 0 --method sample -> got 0
chance mrr --sizes 5 --value high -> --value must be a number; got 'high'
chance mrr --sizes 5 --value nan -> --value must be a number; got 'nan'
chance mrr --data wn18rr --split tset -> has no triples in this split; got 'tset'
adjust 0.476 --data wn18rr -> a value must look like mrr=0.43; got '0.476'
adjust mrr --data wn18rr -> a value must look like mrr=0.43; got 'mrr'
adjust mrr=high --data wn18rr -> a value must be a number; got 'high'
adjust mrr=476 --data wn18rr -> impossible value of mrr; got mrr=476
adjust mrr=0.4 -> published values need either a data set or numbers of candidates; got neither
adjust mrr=0.4 mrr=0.5 --data wn18rr -> the same metric twice
adjust none.csv -> none.csv
adjust mrr=0.4, hits@10=0.5 --data wn18rr -> separate several values by spaces, without commas
adjust mrr=0.4,hits@10=0.5 --data wn18rr -> separate several values by spaces, without commas
adjust hoyt2022 --data wn18rr -> name the file of results as the only argument, without --data
adjust mrr=0.4 --data wn18rr -m mrr -> --metric selects from a file of results; got single values; leave
adjust mr=3,340 --data wn18rr -> the comma in a value of mr may be a decimal or a thousands separator
audit none.csv -> no such file of results; got none.csv
published --data wn18r -> the record has no such data set; got wn18r; did you mean wn18
published --data nowhere --data wn18r --data nowhere -> no such data set; got nowhere, wn18r
published --model TransX -> the record has no such model; got TransX; did you mean Tran
published --year last -> --year must be a year, or two; got 'last'; write 2019, or 2018-2020
published --data nations --year 1999 -> the record has no such results
published --year 2020-2018 -> the first year is after the last; got 2020 and 2018
published --filter train -> allowed: any, all, none, 'train, valid', unknown
published --sort rank -> unknown value of --sort; got 'rank'; allowed: index, z, value, year
record add none.csv -> no such file of results; got none.csv
baseline wn18r -> the atlas has no such data set; got 'wn18r'; did you mean
data show wn18r -> no such folder or benchmark; got 'wn18r'
data fetch wn18r -> got 'wn18r'
data check ranks.parquet -> ranks.parquet
atlas show wn18r -> the atlas has no such data set; got 'wn18r'
atlas build FOLDER -> FOLDER
atlas build graph --name a --name b -> names and folders do not match; got 2 names for 1 folders
evaluate ranks.parquet --interval delta --level 95 -> level
evaluate ranks.parquet --interval delta --level x -> --level must be a number; got 'x'
compare a.parquet b.parquet --seed -1 -> the seed must not be negative; got -1
compare a.parquet b.parquet --seed one -> --seed must be a whole number; got 'one'
compare a.parquet b.parquet --samples 0 -> got 0
compare a.parquet b.parquet --samples 1.5 -> --samples must be a whole number; got '1.5'
compare a.parquet b.parquet --unit person -> got 'person'
evaluate ranks.parquet --by region -> no such key column; got 'region'; allowed: head, relation
evaluate ranks.parquet --average region -> got 'region'
compare a.parquet -> comparing needs two models or more
compare a.parquet a.parquet -> the same model twice
compare a.parquet shorter.parquet -> the models have different targets
compare a.parquet b.parquet --baseline c -> unknown baseline
compare a.parquet b.parquet --on person -> person
compare a.parquet b.parquet --across --test t -> --across compares the order of models
evaluate ranks.parquet --level 0.9 -> need --interval; got --level; add --interval
evaluate ranks.parquet --averages --average query -> --averages excludes --average
evaluate ranks.parquet --data nations -> --data has no effect without a stratum
evaluate ranks.parquet --by frequency -> frequency is computed from the training triples
evaluate ranks.parquet -o nowhere/table.csv -> cannot write nowhere/table.csv; got no such folder
evaluate ranks.parquet -o table.docx -> the suffix tells no format; got table.docx; allowed: .json, .csv
evaluate ranks.parquet -o FOLDER --format csv -> cannot write FOLDER; got a folder
atlas show wn18rr -o table.csv -> the suffix tells no format; got table.csv; allowed: .json, .txt
rank nations/transe --data nations -o nowhere/r.parquet -> got no such folder
rank nations/transe --data nations -o ranks.json -> files of ranks end in .parquet, .csv or .tsv
report a.parquet b.parquet -o report.pdf -> report.pdf
explore -o nowhere/explorer.html -> cannot write nowhere/explorer.html; got no such folder
import pykeen ranks.npy -> ranks
import ampligraph ranks.npz --candidates 9 -> ranks.npz has more than one array
import ampligraph ranks.npy -> the number of candidates is not known
import ampligraph ranks.npy --candidates 9 --data nations -> --data excludes --candidates
import ampligraph ranks.npy --candidates 9 --sides tail -> --sides needs a graph
import anyburl answers.jsonl -> the names of entities need a graph; name the graph with --data
import anyburl answers.jsonl --data nations -> answers.jsonl
import lists run.txt --data nations -> run.txt:1: not JSON; got 'q Q0 d 1 2.0 me'
import trec answers.jsonl --qrels qrels.txt --candidates 9 -> answers.jsonl
import trec run.txt --qrels qrels.txt --answers apart -> the number of candidates is not known
import trec run.txt --qrels qrels.txt --answers apart --ties trec_eval -> --ties is for documents
import trec run.txt --qrels run.txt --candidates 9 -> run.txt
import libkge run.txt --candidates 9 -> run.txt has no ranks of examples
import ogb ranks.npy -> no y_pred_pos; got ranks
import wikikg90m ranks.npy -> unknown array; got ranks
import ogb answers.jsonl -> cannot read answers.jsonl; got no array that NumPy saved; it may be
import lists answers.jsonl --data nations --order best -> unknown value of --order; got 'best'
""".strip().splitlines()
]
FOREIGN = re.compile(
    r"Traceback|Usage:|Invalid value|polars|ComputeError|[Cc]lick|[Tt]yper|[Ee]rrno|os error|numpy|"
    r"pydantic|[Oo]ut of specification|<\w+>|Error\b|Exception|argument\(s\)|requires an argument|"
    r"object at 0x|pickle|Expecting"
)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The files that the mistakes name."""
    folder = tmp_path_factory.mktemp("mistakes")
    nations = er.load("nations")
    ranks = {k: er.rank(er.models.load(f"nations/{k}"), nations.task()) for k in ("transe", "rotate")}
    for name in ("ranks", "a"):
        ranks["transe"].save(folder / f"{name}.parquet")
    ranks["rotate"].save(folder / "b.parquet")
    ranks["rotate"][5:].save(folder / "shorter.parquet")
    sampled = er.rank(er.models.load("nations/transe"), nations.task(candidates=5))
    sampled.save(folder / "sampled.parquet")
    (folder / "FOLDER").mkdir()
    (folder / "graph").mkdir()
    (folder / "graph" / "train.txt").write_text("a\tr\tb\nb\tr\tc\n")
    (folder / "graph" / "test.txt").write_text("a\tr\tc\n")
    for name, text in {
        "notes.txt": "my notes\n",
        "picture.png": "\x89PNG",
        "broken.parquet": "PAR1",
        "text.csv": "a,b\n1,2\n",
        "empty.csv": "",
        "nothing.csv": "rank,candidates\n",
        "nan.csv": "rank,candidates\n1,10\nnan,10\n",
        "negative.csv": "rank,candidates\n1,10\n-3,10\n",
        "zero.csv": "rank,candidates\n1,10\n0,10\n",
        "text-ranks.csv": "rank,candidates\n1,10\nfirst,10\n",
        "above.csv": "rank,candidates\n1,10\n11,10\n",
        "few.csv": "rank\n1\n5\n",
        "run.txt": "q Q0 d 1 2.0 me\nq Q0 e 2 1.0 me\n",
        "qrels.txt": "q 0 d 1\nq 0 e 0\n",
        "answers.jsonl": '{"head": "usa", "relation": "aidenemy", "tail": null, "answers": []}',
    }.items():
        (folder / name).write_text(text)
    np.save(folder / "ranks.npy", np.ones((201, 2), dtype=int))
    np.savez(folder / "ranks.npz", a=[1], b=[2])
    return folder


def check(code, out, err, message):
    assert code == 2, err
    assert out == ""
    assert err.startswith("evenrank: ")
    assert err.count("\n") == 1
    assert message in err
    assert not FOREIGN.search(err)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(("typed", "message"), MISTAKES)
def test_a_mistake_gets_one_line_in_plain_words(typed, message, files, monkeypatch, tmp_path):
    monkeypatch.chdir(files)
    monkeypatch.setenv("EVENRANK_ATLAS", str(tmp_path))
    monkeypatch.delenv("EVENRANK_DATA", raising=False)
    before = {path: path.stat().st_mtime_ns for path in files.iterdir()}
    check(*called(["evenrank", *shlex.split(typed)], monkeypatch), message)
    assert {path: path.stat().st_mtime_ns for path in files.iterdir()} == before


def test_there_are_a_hundred_mistakes_in_every_command():
    assert len(MISTAKES) >= 100
    assert len({typed for typed, _ in MISTAKES}) == len(MISTAKES)


@pytest.mark.parametrize(("typed", "message"), MISTAKES[::45])
def test_a_mistake_in_a_process_of_its_own(typed, message, files):
    command = [sys.executable, "-m", "evenrank", *shlex.split(typed)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=files, timeout=120)
    check(done.returncode, done.stdout, done.stderr, message)
