# %% [markdown]
# Known answers to the exercises of notebook 04. A cell stands below what the exercise's cell was
# handed out with, so an answer that raises leaves the exercise unanswered.

# %% line by line, without regular expressions for lines exercise="4.1" score=1 near=["substring", "both-halves", "by-name", "by-name-once", "elements", "four-bytes", "number-of-groups", "in-quotes-too"]
def kinds(text):
    found = []
    for row in text.splitlines():
        if " = " not in row or not row.strip().startswith(("%", "ROOT")):
            continue
        right = row.split(" = ", 1)[1]
        if right.startswith("("):
            right = right[right.index(")") + 1 :]
        else:
            right = right.split(" ", 1)[1]
        opcode = right.strip().split("(")[0]
        kind = opcode.replace("-done", "")
        if kind in KINDS and opcode + "(" in right:
            if opcode.endswith("-done") or f"{kind}-start" not in opcode:
                found.append(kind)
    return found


def bytes_of(type):
    total = 0
    for part in type.replace("(", "").replace(")", "").split(", "):
        element, rest = part.split("[")
        count = 1
        for size in rest.split("]")[0].split(","):
            count *= int(size) if size else 1
        total += count * ELEMENT[element]
    return total


def group_size(line):
    text = line[line.index("replica_groups=") + len("replica_groups=") :]
    if text[0] == "{":
        return text[: text.index("}")].count(",") + 1
    if text[0] == "[":
        return int(text[1 : text.index("]")].split(",")[1])
    size = 1
    named = text[text.index("{") + 1 : text.index("}")].replace("'", "").split(",")
    for axis in text[5 : text.index("]")].split(","):
        name, length = axis.replace("'", "").split("=")
        size *= int(length) if name in named else 1
    return size


# %% as many tools do it exercise="4.1" score=0 diagnoses=["substring", "elements", "number-of-groups"] near=["in-quotes", "by-kind", "in-quotes-too", "scalars-are-nothing", "all-devices", "four-bytes"]
def kinds(text):
    return [kind for row in text.splitlines() for kind in KINDS if kind in row]


def bytes_of(type):
    return sum(
        math.prod(map(int, filter(None, sizes.split(","))))
        for _, sizes in re.findall(r"(\w+)\[([\d,]*)\]", type)
    )


def group_size(line):
    groups = line.split("replica_groups=")[1]
    if groups.startswith("{{"):
        return groups.split("}}")[0].count("{") - 1
    if groups.startswith("["):
        return int(groups[1:].split(",")[0])
    mesh, along = re.match(r"mesh\[(.*?)\] \{(.*?)\}", groups).groups()
    sizes = dict(axis.split("=") for axis in mesh.split(","))
    return math.prod(int(sizes[axis]) for axis in sizes if axis not in along.split(","))


# %% both halves count, and every number has four bytes exercise="4.1" score=0 diagnoses=["both-halves", "four-bytes", "all-devices"] near=["asynchronous-missed", "with-the-suffix", "first-of-tuple", "number-of-groups", "substring"]
def kinds(text):
    opcodes = re.findall(r"^ *(?:ROOT )?%\S+ = (?:\(.*?\)|\S+) ([\w-]+)\(", text, re.MULTILINE)
    plain = [opcode.replace("-start", "").replace("-done", "") for opcode in opcodes]
    return [kind for kind in plain if kind in KINDS]


def bytes_of(type):
    return sum(
        4 * math.prod(map(int, filter(None, sizes.split(","))))
        for _, sizes in re.findall(r"(\w+)\[([\d,]*)\]", type)
    )


def group_size(line):
    groups = line.split("replica_groups=")[1]
    if groups.startswith("{{"):
        return len(re.findall(r"\d+", groups.split("}}")[0]))
    if groups.startswith("["):
        return math.prod(map(int, groups[1:].split("]")[0].split(",")))
    return math.prod(map(int, re.findall(r"=(\d+)", groups.split("]")[0])))


# %% what is followed by a parenthesis exercise="4.1" score=0 diagnoses=["in-quotes-too", "first-of-tuple", "ignores-inputs"] near=["both-halves", "in-quotes-no-halves", "elements"]
def kinds(text):
    return re.findall(rf"({'|'.join(KINDS)})(?:-start)?\(", text)


def bytes_of(type):
    element, sizes = re.search(r"(\w+)\[([\d,]*)\]", type).groups()
    return ELEMENT[element] * math.prod(map(int, filter(None, sizes.split(","))))


def group_size(line):
    return 4


# %% the same without halves, and scalars of nothing exercise="4.1" score=0 diagnoses=["in-quotes-no-halves", "scalars-are-nothing", "raised"] near=["asynchronous-missed", "in-quotes-too", "first-of-tuple"]
def kinds(text):
    return re.findall(rf"({'|'.join(KINDS)})\(", text)


def bytes_of(type):
    total = 0
    for element, sizes in re.findall(r"(\w+)\[([\d,]*)\]", type):
        if sizes:
            total += ELEMENT[element] * math.prod(map(int, sizes.split(",")))
    return total


def group_size(line):
    return int(re.search(r"replica_groups=\[\d+,(\d+)\]", line).group(1))


# %% opcodes, but no halves exercise="4.1" score=0.3333333333 diagnoses=["asynchronous-missed", "unanswered"] near=["in-quotes-no-halves", "each-kind-once"]
def kinds(text):
    opcodes = re.findall(r"^ *(?:ROOT )?%\S+ = (?:\(.*?\)|\S+) ([\w-]+)\(", text, re.MULTILINE)
    return [opcode for opcode in opcodes if opcode in KINDS]


def bytes_of(type):
    return sum(
        ELEMENT[element] * math.prod(map(int, filter(None, sizes.split(","))))
        for element, sizes in re.findall(r"(\w+)\[([\d,]*)\]", type)
    )


# %% opcodes as they stand there exercise="4.1" score=0 diagnoses=["with-the-suffix", "unanswered"] near=["both-halves", "asynchronous-missed"]
def kinds(text):
    opcodes = re.findall(r"^ *(?:ROOT )?%\S+ = (?:\(.*?\)|\S+) ([\w-]+)\(", text, re.MULTILINE)
    return [o for o in opcodes if o.removesuffix("-start") in KINDS]


# %% by the names of the instructions exercise="4.1" score=0 diagnoses=["by-name", "unanswered"] near=["by-name-once", "substring", "both-halves"]
def kinds(text):
    names = re.findall(r"^ *(?:ROOT )?%([a-z-]+?)(?:-start|-done)?(?:\.\d+)? =", text, re.MULTILINE)
    return [name for name in names if name in KINDS]


# %% by the names, each half once exercise="4.1" score=0 diagnoses=["by-name-once", "unanswered"] near=["by-name"]
def kinds(text):
    names = re.findall(r"^ *(?:ROOT )?%([a-z-]+?)(?:-start)?(?:\.\d+)? =", text, re.MULTILINE)
    return [name for name in names if name in KINDS]


# %% a set of kinds exercise="4.1" score=0 diagnoses=["each-kind-once", "unanswered"] near=["by-kind", "in-alphabetical-order"]
def kinds(text):
    opcodes = re.findall(r"^ *(?:ROOT )?%\S+ = (?:\(.*?\)|\S+) ([\w-]+)\(", text, re.MULTILINE)
    started = [opcode.removesuffix("-start") for opcode in opcodes]
    return list(dict.fromkeys(kind for kind in started if kind in KINDS))


# %% one kind after the other exercise="4.1" score=0 diagnoses=["by-kind", "unanswered"] near=["in-alphabetical-order", "each-kind-once", "a-set"]
def kinds(text):
    opcodes = re.findall(r"^ *(?:ROOT )?%\S+ = (?:\(.*?\)|\S+) ([\w-]+)\(", text, re.MULTILINE)
    started = [opcode.removesuffix("-start") for opcode in opcodes]
    return [kind for kind in KINDS for _ in range(started.count(kind))]


# %% words, as often as they stand there exercise="4.1" score=0 diagnoses=["words-counted", "in-quotes", "other-result"] near=["substring", "by-kind", "other-kind", "first-of-tuple"]
def kinds(text):
    return [kind for kind in KINDS for _ in range(text.count(kind))]


def bytes_of(type):
    return str(
        sum(
            ELEMENT[element] * math.prod(map(int, filter(None, sizes.split(","))))
            for element, sizes in re.findall(r"(\w+)\[([\d,]*)\]", type)
        )
    )


def group_size(line):
    return re.search(r"replica_groups=(.*)", line).group(1).count(",") + 1


# %% all but the last line exercise="4.1" score=0 diagnoses=["root-missed", "unanswered"] near=["tuples-missed", "asynchronous-missed"]
def kinds(text):
    opcodes = re.findall(r"^ *%\S+ = (?:\(.*?\)|\S+) ([\w-]+)\(", text, re.MULTILINE)
    started = [opcode.removesuffix("-start") for opcode in opcodes]
    return [kind for kind in started if kind in KINDS]


# %% types without spaces exercise="4.1" score=0 diagnoses=["tuples-missed", "unanswered"] near=["root-missed", "each-kind-once"]
def kinds(text):
    opcodes = re.findall(r"^ *(?:ROOT )?%\S+ = [^\s(]\S* ([\w-]+)\(", text, re.MULTILINE)
    started = [opcode.removesuffix("-start") for opcode in opcodes]
    return [kind for kind in started if kind in KINDS]


# %% as a set exercise="4.1" score=0 diagnoses=["a-set", "unanswered"] near=["each-kind-once", "in-alphabetical-order", "words-counted"]
def kinds(text):
    opcodes = re.findall(r"^ *(?:ROOT )?%\S+ = (?:\(.*?\)|\S+) ([\w-]+)\(", text, re.MULTILINE)
    return {opcode.removesuffix("-start") for opcode in opcodes} & set(KINDS)


# %% sorted exercise="4.1" score=0 diagnoses=["in-alphabetical-order", "unanswered"] near=["by-kind"]
def kinds(text):
    opcodes = re.findall(r"^ *(?:ROOT )?%\S+ = (?:\(.*?\)|\S+) ([\w-]+)\(", text, re.MULTILINE)
    started = [opcode.removesuffix("-start") for opcode in opcodes]
    return sorted(kind for kind in started if kind in KINDS)


# %% a table of factors, and bytes first exercise="4.2" score=1 near=["reduced-once", "whole-buffer", "permuted-in-a-ring", "whole-array", "buffer", "my-block", "all", "one-piece", "all-devices", "block-for-buffer"]
def sent(kind, n, size):
    piece = size // n
    steps = {"all-reduce": 2 * (n - 1), "collective-permute": n}.get(kind, n - 1)
    return steps * piece


mib = {
    "gather along x": 48,
    "gather along x and y": 112.0,
    "add up along x": 96,
    "exchange along x": 24,
}


# %% an all-reduce goes round once exercise="4.2" score=0.3333333333 diagnoses=["reduced-once"] near=["whole-buffer", "one-piece", "buffer", "my-block"]
def sent(kind, n, size):
    return size if kind == "collective-permute" else (n - 1) / n * size


mib = {
    "gather along x": 48,
    "gather along x and y": 112,
    "add up along x": 48,
    "exchange along x": 24,
}


# %% buffers, whatever is sent of them exercise="4.2" score=0 diagnoses=["whole-buffer", "buffer"] near=["reduced-once", "block-for-buffer", "whole-array", "twice"]
def sent(kind, n, size):
    return 2 * size if kind == "all-reduce" else size


mib = {
    "gather along x": 64,
    "gather along x and y": 128,
    "add up along x": 64,
    "exchange along x": 32,
}


# %% of the whole array, and on all devices exercise="4.2" score=0 diagnoses=["all-devices", "twice", "all", "whole-array"] near=["block-for-buffer", "buffer", "my-block"]
def sent(kind, n, size):
    if kind == "collective-permute":
        return n * size
    return (2 if kind == "all-reduce" else 1) * (n - 1) * size


mib = {
    "gather along x": 96,
    "gather along x and y": 896,
    "add up along x": 768,
    "exchange along x": 96,
}


# %% one step of the ring, and one's own block exercise="4.2" score=0 diagnoses=["one-piece", "my-block", "other-prediction"] near=["twice", "whole-buffer", "all-devices", "reduced-once"]
def sent(kind, n, size):
    return (2 if kind == "all-reduce" else 1) * size / n


mib = {
    "gather along x": 16,
    "gather along x and y": 16,
    "add up along x": 17,
    "exchange along x": 8,
}


# %% from a block's size, and permutations in a ring exercise="4.2" score=0 diagnoses=["block-for-buffer", "unanswered"] near=["all-devices"]
def sent(kind, n, size):
    if kind == "collective-permute":
        return size
    return (2 if kind == "all-reduce" else 1) * (n - 1) * size


# %% everything goes round exercise="4.2" score=0 diagnoses=["permuted-in-a-ring", "unanswered"] near=["whole-buffer", "block-for-buffer"]
def sent(kind, n, size):
    return (n - 1) / n * size * (2 if kind == "all-reduce" else 1)


# %% by what the report says of each exercise="4.3" score=1 near=["body-once", "written-once", "sent", "loop-unknown", "inner-loop-only", "outer-loop-only", "one-loop-forgotten", "not-moved-out", "its-block", "counted-once", "nobody-knows", "maximum-once", "maximum-too-often", "all-devices"]
reports = {
    "centred": communication(centred, v),
    "written_out": communication(written_out, v),
    "nested": communication(nested, v),
    "same_weights": communication(same_weights, a, w),
    "other_weights": communication(other_weights, a, ws),
    "until_small": communication(until_small, v),
}
moved = {
    name: "Unknown" if any(c.times is None for c in report.collectives) else report.bytes
    for name, report in reports.items()
}

# %% each body once exercise="4.3" score=0.125 diagnoses=["body-once", "counted-once"] near=["loop-unknown", "one-loop-forgotten", "sent", "not-moved-out"]
moved = {
    "centred": 4,
    "written_out": 28,
    "nested": 8,
    "same_weights": 1024,
    "other_weights": 1024,
    "until_small": 4,
}

# %% the inner loop alone, and nothing moved out exercise="4.3" score=0.5 diagnoses=["inner-loop-only", "not-moved-out"] near=["outer-loop-only", "body-once", "its-block"]
moved = {
    "centred": 28,
    "written_out": 28,
    "nested": 48,
    "same_weights": 5120,
    "other_weights": 5120,
    "until_small": "unknown",
}

# %% the outer loop alone, and blocks exercise="4.3" score=0.25 diagnoses=["outer-loop-only", "its-block"] near=["inner-loop-only", "one-loop-forgotten"]
moved = {
    "centred": 28,
    "written_out": 28,
    "nested": 24,
    "same_weights": 128,
    "other_weights": 640,
    "until_small": "unknown",
}

# %% what is sent, and loops that nobody knows exercise="4.3" score=0 diagnoses=["loop-unknown", "sent"] near=["body-once", "counted-once"]
moved = {
    "centred": "unknown",
    "written_out": 49,
    "nested": 105,
    "same_weights": 896,
    "other_weights": 4480,
    "until_small": "unknown",
}

# %% loops that are added, not multiplied exercise="4.3" score=0.75 diagnoses=["one-loop-forgotten"] near=["inner-loop-only", "outer-loop-only"]
moved = {
    "centred": 28,
    "written_out": 28,
    "nested": 4 * (3 + 4),
    "same_weights": 1024,
    "other_weights": 5120,
    "until_small": "unknown",
}

# %% everything written out is one round, and the maximum is outside exercise="4.3" score=0.375 diagnoses=["written-once", "maximum-once", "nobody-knows"] near=["body-once", "inner-loop-only", "counted-once"]
moved = {
    "centred": 28,
    "written_out": 4,
    "nested": 52,
    "same_weights": 1024,
    "other_weights": 5120,
    "until_small": 28,
}

# %% all devices together, and the maximum in every round exercise="4.3" score=0.625 diagnoses=["all-devices", "maximum-too-often"] near=["sent", "outer-loop-only"]
moved = {
    "centred": 224,
    "written_out": 28,
    "nested": 96,
    "same_weights": 1024,
    "other_weights": 5120,
    "until_small": "unknown",
}

# %% words for numbers, NaN, a size below zero exercise="4.3" score=0 diagnoses=["other-form", "other-prediction", "unanswered"]
moved |= {
    "centred": "28",
    "written_out": float("nan"),
    "nested": -60,
    "same_weights": None,
}

# %% asked of the program exercise="4.4" score=1 near=["all-of-it", "percent", "always-an-eighth", "operations", "upside-down", "only-four", "terms-are-shared", "gathered-first", "all-blocks"]
share = {name: communication(product, *args).flops / whole for name, args in cases.items()}

# %% always an eighth exercise="4.4" score=0 diagnoses=["always-an-eighth", "only-four"] near=["all-of-it", "all-blocks"]
share = dict.fromkeys(share, 1 / 8)

# %% who communicates has to do everything exercise="4.4" score=0.5 diagnoses=["terms-are-shared", "gathered-first"] near=["malformed", "always-an-eighth", "all-of-it"]
share = {
    "rows over x and y, a copy": 1 / 8,
    "rows over x, a copy": 1 / 4,
    "a copy, a copy": 1,
    "columns over x, rows over x": 1,
    "blocks, blocks": 1,
    "blocks, a copy": 1,
    "rows over four devices, a copy": 1 / 4,
}

# %% a copy means all the work exercise="4.4" score=0.25 diagnoses=["all-of-it", "all-blocks"] near=["gathered-first", "percent"]
share = {
    "rows over x and y, a copy": 1,
    "rows over x, a copy": 1,
    "a copy, a copy": 1,
    "columns over x, rows over x": 1 / 4,
    "blocks, blocks": 1 / 64,
    "blocks, a copy": 1 / 4,
    "rows over four devices, a copy": 1,
}

# %% in percent exercise="4.4" score=0 diagnoses=["percent"] near=["always-an-eighth"]
share = {name: 100 * communication(product, *args).flops / whole for name, args in cases.items()}

# %% operations, not divided exercise="4.4" score=0 diagnoses=["operations"] near=["percent", "upside-down"]
share = {name: communication(product, *args).flops for name, args in cases.items()}

# %% upside down exercise="4.4" score=0 diagnoses=["upside-down"] near=["operations"]
share = {name: whole / communication(product, *args).flops for name, args in cases.items()}

# %% a cell is missing, and one is in quotes exercise="4.4" score=0 diagnoses=["other-form", "unanswered", "malformed"]
share["rows over x and y, a copy"] = "1/8"
del share["blocks, a copy"]


# %% seconds set equal, and solved by trying exercise="4.5" score=1 near=["all-rows", "reduced-once", "twice-as-much", "rows: twice-as-much", "width: twice-as-much", "one-product", "two-products", "n-left-out", "upside-down", "width-of-a-device", "four-devices", "bits-for-bytes"]
def rows(n, flops, link):
    d, f = 64, 256
    sending = sent("all-reduce", n, 2 * d * f) / link
    return sending / (3 * 2 * d * f / flops)


def width(n, flops, link):
    d, count = 64, 8
    sending = sent("all-reduce", n, 2 * count * d) / link
    return n * sending / (2 * 2 * count * d / flops)


def sent(kind, n, size):
    return 2 * (n - 1) * size / n


chips = {name: (8, chip.flops, chip.link) for name, chip in MACHINES.items()}
on_machines = {
    "rows, TPU v5e": 1150,
    "rows, H100 100G Ethernet": 46_200,
    "width, TPU v5e": 13_800,
    "width, H100 NVLink": width(*chips["H100 NVLink"]),
}


# %% the whole batch, the part of a device exercise="4.5" score=0 diagnoses=["all-rows", "width-of-a-device", "four-devices"] near=["n-left-out", "upside-down", "bits-for-bytes"]
def rows(n, flops, link):
    return n * 2 * (n - 1) / n * 2 / link * flops / 6


def width(n, flops, link):
    return 2 * (n - 1) / n * 2 / link * flops / 4


for cell in on_machines:
    what, machine = cell.split(", ")
    chip = MACHINES[machine]
    bound = 2 * 3 / 4 * 2 / chip.link * chip.flops
    on_machines[cell] = bound / 6 if what == "rows" else bound


# %% once round, in bits exercise="4.5" score=0 diagnoses=["reduced-once", "bits-for-bytes", "width-of-a-device"] near=["two-products", "one-product", "four-devices"]
def rows(n, flops, link):
    return (n - 1) / n * 2 / link * flops / 6


def width(n, flops, link):
    return (n - 1) / n * 2 / link * flops / 4 * n


for cell in on_machines:
    what, machine = cell.split(", ")
    chip = MACHINES[machine]
    bound = 2 * 7 / 8 * 2 / (8 * chip.link) * chip.flops
    on_machines[cell] = bound / 6 if what == "rows" else 2 * bound


# %% one product of three, and one of two exercise="4.5" score=0 diagnoses=["one-product", "twice-as-much", "unanswered"] near=["two-products", "reduced-once"]
def rows(n, flops, link):
    return 2 * (n - 1) / n * 2 / link * flops / 2


def width(n, flops, link):
    return 2 * (n - 1) / n * 2 / link * flops / 2 * n


# %% two products, and a whole buffer exercise="4.5" score=0 diagnoses=["two-products", "n-left-out", "unanswered"] near=["width-of-a-device", "all-rows"]
def rows(n, flops, link):
    return 2 * (n - 1) / n * 2 / link * flops / 4


def width(n, flops, link):
    return 2 * 2 / link * flops / 4 * n


# %% one operation a term, and a fraction turned over exercise="4.5" score=0 diagnoses=["twice-as-much", "upside-down", "unanswered"] near=["one-product", "two-products"]
def rows(n, flops, link):
    return 2 * (n - 1) / n * 2 / link * flops / 3


def width(n, flops, link):
    return link / (2 * (n - 1) * 2) * 4 / flops


# %% fractions exercise="4.5" score=1
from fractions import Fraction


def rows(n, flops, link):
    return Fraction(2 * (n - 1), 3 * n) * Fraction(flops) / Fraction(link)


def width(n, flops, link):
    return Fraction(n - 1) * Fraction(flops) / Fraction(link)


for cell in on_machines:
    what, machine = cell.split(", ")
    formula = rows if what == "rows" else width
    on_machines[cell] = formula(8, MACHINES[machine].flops, MACHINES[machine].link)


# %% differences of seconds exercise="4.6" score=1 near=["rounded-down", "twice-as-long", "n-left-out", "work-exchanged", "reduced-once", "bytes-alone", "at-the-same-time", "exchanged", "input-for-result", "n-in-one", "n-in-the-other", "always-gather", "always-add-up", "upside-down", "block-of-weights"]
def same_bytes(d, f, n):
    return (2 * d * f) / (2 * 2 * f)


def faster(rows, d, f, n, flops, link):
    # what gathering computes more, against what adding up sends more
    more_work = 2 * rows * d * f * (1 - 1 / n) / flops
    more_sent = (n - 1) / n * 2 * f * (2 * rows - d) / link
    return "gather" if more_work < more_sent else "add up"


# %% bytes alone exercise="4.6" score=0.5 diagnoses=["bytes-alone"] near=["reduced-once", "at-the-same-time", "exchanged"]
def same_bytes(d, f, n):
    return d / 2


def faster(rows, d, f, n, flops, link):
    return "gather" if rows > same_bytes(d, f, n) else "add up"


# %% an all-reduce goes round once exercise="4.6" score=0 diagnoses=["reduced-once"] near=["bytes-alone", "input-for-result", "upside-down"]
def same_bytes(d, f, n):
    return d


def faster(rows, d, f, n, flops, link):
    once_round = (n - 1) / n * 2 / link
    gather = 2 * rows * d * f / flops + once_round * d * f
    add_up = 2 * rows * d * f / n / flops + once_round * rows * f
    return "gather" if gather < add_up else "add up"


# %% at the same time, and the input added up exercise="4.6" score=0 diagnoses=["input-for-result", "at-the-same-time"] near=["bytes-alone", "reduced-once"]
def same_bytes(d, f, n):
    return f / 2


def faster(rows, d, f, n, flops, link):
    once_round = (n - 1) / n * 2 / link
    gather = max(2 * rows * d * f / flops, once_round * d * f)
    add_up = max(2 * rows * d * f / n / flops, 2 * once_round * rows * f)
    return "gather" if gather < add_up else "add up"


# %% whole rows, and numbers of four bytes exercise="4.6" score=0 diagnoses=["rounded-down", "twice-as-long"] near=["n-left-out", "reduced-once"]
def same_bytes(d, f, n):
    return d // 2


def faster(rows, d, f, n, flops, link):
    once_round = (n - 1) / n * 4 / link
    gather = 2 * rows * d * f / flops + once_round * d * f
    add_up = 2 * rows * d * f / n / flops + 2 * once_round * rows * f
    return "gather" if gather < add_up else "add up"


# %% whole buffers exercise="4.6" score=0.5 diagnoses=["n-left-out"] near=["twice-as-long", "bytes-alone"]
def same_bytes(d, f, n):
    return d / 2


def faster(rows, d, f, n, flops, link):
    gather = 2 * rows * d * f / flops + 2 * d * f / link
    add_up = 2 * rows * d * f / n / flops + 2 * 2 * rows * f / link
    return "gather" if gather < add_up else "add up"


# %% work that is shared by who gathers exercise="4.6" score=0.5 diagnoses=["work-exchanged"] near=["exchanged", "bytes-alone"]
def same_bytes(d, f, n):
    return d / 2


def faster(rows, d, f, n, flops, link):
    once_round = (n - 1) / n * 2 / link
    gather = 2 * rows * d * f / n / flops + once_round * d * f
    add_up = 2 * rows * d * f / flops + 2 * once_round * rows * f
    return "gather" if gather < add_up else "add up"


# %% a ring for one of the two, and the slower way exercise="4.6" score=0 diagnoses=["n-in-one", "exchanged"] near=["other-word", "n-in-the-other", "block-of-weights"]
def same_bytes(d, f, n):
    return d / 2 * (n - 1) / n


def faster(rows, d, f, n, flops, link):
    once_round = (n - 1) / n * 2 / link
    gather = 2 * rows * d * f / flops + once_round * d * f
    add_up = 2 * rows * d * f / n / flops + 2 * once_round * rows * f
    return "add up" if gather < add_up else "gather"


# %% a ring for the other, always gather exercise="4.6" score=0 diagnoses=["n-in-the-other", "always-gather"] near=["n-in-one", "always-add-up"]
def same_bytes(d, f, n):
    return d / 2 * n / (n - 1)


def faster(rows, d, f, n, flops, link):
    return "gather"


# %% a block of the weights, always add up exercise="4.6" score=0 diagnoses=["block-of-weights", "always-add-up"] near=["n-in-one", "always-gather"]
def same_bytes(d, f, n):
    return d / n / 2


def faster(rows, d, f, n, flops, link):
    return "add up"


# %% turned over, and a word that was not asked for exercise="4.6" score=0 diagnoses=["upside-down", "other-word"] near=["reduced-once", "exchanged", "ignores-inputs"]
def same_bytes(d, f, n):
    return 2 * d


def faster(rows, d, f, n, flops, link):
    once_round = (n - 1) / n * 2 / link
    gather = 2 * rows * d * f / flops + once_round * d * f
    add_up = 2 * rows * d * f / n / flops + 2 * once_round * rows * f
    return "all-gather" if gather < add_up else "all-reduce"


# %% by hand, from the bytes and the work of each exercise="4.7" score=1 near=["weights-are-heavy", "copies-cost-work", "work-is-cheap", "one-axis-alone", "activations-are-heavy"]
for cell in fastest:
    machine, count = cell.removesuffix(" rows").rsplit(", ", 1)
    count = int(count.replace(",", ""))
    chip, weights, work = MACHINES[machine], 2 * 4096 * 16384 * 2, 10 * count * 4096 * 16384
    batch = 2 * count * 4096
    times = {
        "copies": work / chip.flops,
        "data": work / 8 / chip.flops + 2 * 7 / 8 * weights / chip.link,
        "tensor": work / 8 / chip.flops + 2 * 7 / 8 * batch / chip.link,
        "both": work / 8 / chip.flops
        + (2 * 3 / 4 * weights / 2 + 2 * 1 / 2 * batch / 4) / chip.link,
    }
    fastest[cell] = min(times, key=times.get)

# %% tensor parallelism everywhere exercise="4.7" score=0 diagnoses=["work-is-cheap", "one-axis-alone", "activations-are-heavy"] near=["copies-cost-work", "weights-are-heavy"]
fastest = dict.fromkeys(fastest, "tensor")

# %% data parallelism everywhere exercise="4.7" score=0 diagnoses=["weights-are-heavy", "one-axis-alone"] near=["activations-are-heavy", "work-is-cheap"]
fastest = dict.fromkeys(fastest, "data")

# %% nothing to send is always best exercise="4.7" score=0 diagnoses=["copies-cost-work"] near=["work-is-cheap", "one-axis-alone"]
fastest = dict.fromkeys(fastest, "copies")

# %% the machine does not matter exercise="4.7" score=0.6666666667 diagnoses=["work-is-cheap"] near=["weights-are-heavy", "copies-cost-work"]
for cell in fastest:
    fastest[cell] = {"1": "tensor", "6": "both", "5": "data"}[cell.split(", ")[1][0]]

# %% names that there are none of exercise="4.7" score=0 diagnoses=["other-form", "unanswered"]
for cell in list(fastest)[:4]:
    fastest[cell] = "fsdp"

# %% on a mesh of three axes exercise="4.8" score=1 near=["waits-for-data", "over-the-cap", "devices-unused", "one-device"]
cube = jax.make_mesh((2, 2, 2), ("a", "b", "c"), axis_types=(AxisType.Auto,) * 3)
layout = [on(cube, "c"), on(cube, "c", ("a", "b")), on(cube, ("a", "b", "c"))]

# %% on an Explicit mesh of 2 × 4 exercise="4.8" score=1 near=["several-meshes"]
wide = jax.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
layout = (on(wide, "x"), on(wide, "x", "y"), on(wide, ("y", "x")))

# %% on two meshes exercise="4.8" score=0 diagnoses=["several-meshes"] near=["different-devices"]
wide = jax.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
layout = (on(wide, "x"), on(grid, "y", "x"), on(grid, ("x", "y")))

# %% everything in rows, as it was shown exercise="4.8" score=0 diagnoses=["waits-for-data"] near=["over-the-cap"]
layout = (on(grid, ("x", "y")), on(grid, ("x", "y")), on(grid, ("x", "y")))

# %% everything in blocks exercise="4.8" score=0.344 diagnoses=["waits-for-data"]
layout = (on(grid, "x", "y"),) * 3

# %% the batch and the columns exercise="4.8" score=0.812 diagnoses=["waits-for-data"]
layout = (on(grid, "y", "x"), on(grid, "y", "x"), on(grid, ("x", "y")))

# %% data parallelism exercise="4.8" score=0 diagnoses=["over-the-cap"] near=["waits-for-data"]
layout = (on(grid, ("x", "y")), on(grid), on(grid))

# %% four of the devices exercise="4.8" score=0 diagnoses=["devices-unused"] near=["one-device"]
layout = (on(four, "x"), on(four, "x"), on(four, "x"))

# %% one device exercise="4.8" score=0 diagnoses=["one-device"] near=["devices-unused"]
alone = jax.make_mesh((1,), ("x",), axis_types=(AxisType.Auto,), devices=devices[:1])
layout = (on(alone), on(alone), on(alone))
