"""The engine of `rank(scorer, task) -> Ranks`: fast, in bounded memory, the same bits every time.

    queries of a task, distinct and in blocks that fit `memory`
       |
       |  Factored.vectors                                        (a GPU: _device, _torch, _triton)
       v
    query vectors, float64 -------- target scores, by definition
       |                                |
       |  packed to float32             |  +- error bound (bounds)
       v                                v
    tiles: 12 x 32 pairs ---------> compare in registers
       rows of the table in blocks      |
                                        +-- above the bound: better += 1
                                        +-- below the bound: nothing
                                        +-- between: undecided, settled by the float64 definition
                                        v
    known true answers, scored by definition, are subtracted
       |
       v
    better, equal, candidates of every target

What is counted
---------------
A target's rank needs three integers: how many candidates score better, how many score the same, and how
many candidates there are. So no scores are kept. Each *distinct* query is scored once and serves all of
its targets. All candidates are counted, the known true answers among them; what these contributed is
subtracted afterwards. They are few (FB15k-237: 300,000, against 330 million scores), and the score
matrix needs no mask. `candidates` comes from the task alone; no score, infinite or not, changes it.
NaN is an error that names query and candidate.

What is compared
----------------
A sum in float32 has other last bits with another tile size, thread count or machine, and a last bit is
enough to change a rank or to break a tie. The score of a model that factors (`Factored`) is therefore
*defined*: query vector and row as float64, terms computed one by one, summed by halves
(`numpy_kernels.fold`). Fast kernels must reach this definition. They score in float32, with a proven
bound on the error (`bounds`). A candidate whose score differs from the target score by more than the
bound is decided; the others, about one in a thousand or fewer, are scored again by definition. Thus
`better`, `equal` and `candidates` are the same for any `memory`, tile size, number of threads, order of
queries and instruction set, for NumPy alone, and for tables of float32 and float64 that hold the same
values. `exact=False` omits the last step and compares plain float32 scores.

Any other scorer is a function of queries and candidates, and its scores are compared as they are. If
the task follows the protocol of a library that compares scores in some other way
(`evenrank.ranks.presets`), plain float32 scores are compared in that way.

What is tiled
-------------
Queries are taken in blocks that fit `memory`, and so is the table. Within them the compiled kernel
(`_kernels.c`, through ctypes) packs rows into panels, scores 12 x 32 pairs in registers, and compares
and counts there: scores never reach memory. It does the work of a matrix product and counts as well,
and is as fast as the matrix product of BLAS. Distances are computed in the same way, where other
libraries store queries x entities x dimensions numbers. Threads take blocks of queries; counts are
integers, so the order of additions does not matter. Without a compiler at installation, NumPy does the
same work with BLAS in float64 (`numpy_kernels`).

Restricted candidates are scored alone: lists shared by many queries (types) by gathering their rows
once, lists of single queries (samples) pair by pair.

Files
-----
`bounds`         error bounds of float32 scores, with their proofs
`numpy_kernels`  the definition of a score; counting with NumPy
`_kernels.c`     counting, compiled for several instruction sets
`_native`        calls `_kernels.c`, and selects the kernels of this machine
`_count`         blocks of queries; counting by the definition of the score
`_given`         counting from the scores of a function, or in the way of a library
`run`            memory, threads and progress of a call
`vectors`        formulas that combine rows of two tables into query vectors
`exact_product`  matrix products with the same bits everywhere
`_device`        the task's index and the table on a device of torch
`_torch`         counting on a device
`_triton`        its kernels for NVIDIA's GPUs
`_record`        launches of a GPU, recorded once and replayed
`mesh`           ranking by several processes
`_identity`      a hash of the model, by which a checkpoint is recognised
"""
