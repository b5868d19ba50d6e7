"""Ranking: `rank(scorer, task) -> Ranks`, quickly, in bounded memory, with the same bits every time.

What is counted
---------------
A target's rank needs three integers: how many candidates score better, how many score the same, how
many there are. So no score is kept. Each *distinct* query is scored once and serves all of its
targets. All candidates are counted, known answers too, and what the known answers contributed is
subtracted again: there are few of them (FB15k-237: 300,000, against 330 million scores), and the score
matrix needs no mask. `candidates` comes from the task alone; no score, infinite or not, changes it.
NaN is an error that names query and candidate.

What is compared
----------------
Summing in float32 gives another last bit with another tile, thread count or machine, and a last bit is
enough to move a rank or to break a tie. For models that factor (`Factored`) the score is therefore
*defined*: query vector and row as float64, terms worked out one by one, summed by halves
(`_numpy.fold`). Fast kernels must reach that definition. They score in float32, with a proven bound on
the error (`_bounds.py`): a candidate further from the target's score than the bound is decided; the
others, about one in a thousand or fewer, are scored again by definition. Thus `better`, `equal` and
`candidates` are the same for any `memory`, tile, number of threads, order of queries and instruction
set, for NumPy alone, and for tables of float32 and float64 that hold the same values. `exact=False`
leaves the last step out: plain scores, compared as they come.

Any other scorer is a function of queries and candidates, and its scores are compared as given. So are
plain float32 scores where the task asks for the protocol of a library that compares in some other way
(`evenrank.ranks.presets`), and then as that library does.

What is tiled
-------------
Queries come in blocks that fit `memory`, the table in blocks too. Within them the compiled kernel
(`_kernels.c`, through ctypes) packs rows into panels, scores 12 x 32 pairs in registers, compares and
counts there: scores never reach memory. It does what a matrix product does and counts besides, and is
as fast as the matrix product of BLAS; distances take the same route, where others materialise queries
x entities x dimensions. Threads take blocks of queries; counts are integers, so it does not matter who
adds them first. Without a compiler at installation, NumPy does the same work with BLAS in float64
(`_numpy.py`).

Restricted candidates are scored restricted: lists shared by many queries (types) by gathering their
rows once, lists of single queries (samples) pair by pair.

Where things are
----------------
`scorer` says what can be ranked, `_arrays` what its arrays may be, `_product` multiplies them with the
same bits everywhere. `_count` cuts a task into blocks and counts by definition, `_given` in scores as
they come; `_run` has memory, threads and progress. The definition of a score, and counting by NumPy,
are in `_numpy`; the proofs in `_bounds`; the kernels in `_kernels.c`, called by `_native`. `_torch` does
all of this on devices, with the kernels of `_triton` and what `_device` has put there; `_distributed`
shares it out among processes. `_identity` hashes what an interrupted ranking goes on with.
"""
