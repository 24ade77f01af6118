# %% [markdown]
# Known answers to the exercises of notebook 04. A cell stands below what the exercise's cell was
# handed out with, so an answer that raises did not finish.

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


# %% by the names of the instructions exercise="4.1" score=0 diagnoses=["by-name", "unanswered"] near=["by-name-once", "substring", "both-halves", "names-too"]
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


# %% one kind after the other exercise="4.1" score=0 diagnoses=["by-kind", "unanswered"] near=["in-alphabetical-order", "each-kind-once", "how-many"]
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


# %% as a set exercise="4.1" score=0 diagnoses=["each-kind-once", "unanswered"] near=["ignores-inputs", "in-alphabetical-order", "words-counted"]
def kinds(text):
    opcodes = re.findall(r"^ *(?:ROOT )?%\S+ = (?:\(.*?\)|\S+) ([\w-]+)\(", text, re.MULTILINE)
    return {opcode.removesuffix("-start") for opcode in opcodes} & set(KINDS)


# %% sorted exercise="4.1" score=0 diagnoses=["in-alphabetical-order", "unanswered"] near=["by-kind"]
def kinds(text):
    opcodes = re.findall(r"^ *(?:ROOT )?%\S+ = (?:\(.*?\)|\S+) ([\w-]+)\(", text, re.MULTILINE)
    started = [opcode.removesuffix("-start") for opcode in opcodes]
    return sorted(kind for kind in started if kind in KINDS)


# %% each kind once, in the order of KINDS; the number of groups in brackets exercise="4.1" score=0 diagnoses=["each-kind-once", "bits", "number-of-groups-in-brackets"] near=["ignores-inputs", "by-kind", "number-of-groups", "order-of-devices", "elements"]
def kinds(text):
    opcodes = re.findall(r"^ *(?:ROOT )?%\S+ = (?:\(.*?\)|\S+) ([\w-]+)\(", text, re.MULTILINE)
    started = [opcode.removesuffix("-start") for opcode in opcodes]
    return [kind for kind in KINDS if kind in started]


def bytes_of(type):
    arrays = re.findall(r"(\w+)\[([\d,]*)\]", type)
    return sum(8 * ELEMENT[e] * math.prod(map(int, filter(None, s.split(",")))) for e, s in arrays)


def group_size(line):
    groups = line.split("replica_groups=")[1]
    if groups.startswith("{{"):
        return len(groups[2:].split("}")[0].split(","))
    if groups.startswith("["):
        return int(re.match(r"\[(\d+),\d+\]", groups).group(1))
    mesh, along = re.match(r"mesh\[(.*?)\] \{(.*?)\}", groups).groups()
    sizes = dict(axis.split("=") for axis in mesh.split(","))
    return math.prod(int(sizes[axis]) for axis in along.split(","))


# %% names read as opcodes, but not that of the last line; the whole mesh exercise="4.1" score=0 diagnoses=["by-name", "largest-of-tuple", "whole-mesh"] near=["by-name-once", "root-missed", "first-of-tuple", "all-devices", "all-devices-in-some-forms", "any-axis"]
def kinds(text):
    found = []
    for row in text.splitlines():
        name = re.match(r"\s*%([a-z-]+)", row)
        if name:
            found.append(name.group(1).strip("-").replace("-start", "").replace("-done", ""))
    return [kind for kind in found if kind in KINDS]


def bytes_of(type):
    return max(
        ELEMENT[element] * math.prod(map(int, filter(None, sizes.split(","))))
        for element, sizes in re.findall(r"(\w+)\[([\d,]*)\]", type)
    )


def group_size(line):
    groups = line.split("replica_groups=")[1]
    if groups.startswith("{{"):
        return len(groups[2:].split("}")[0].split(","))
    if groups.startswith("["):
        return int(re.match(r"\[\d+,(\d+)\]", groups).group(1))
    return math.prod(map(int, re.findall(r"=(\d+)", groups)))


# %% names of operands too; the sizes added up, the groups counted in full exercise="4.1" score=0 diagnoses=["after-percent", "sizes-added", "number-of-groups-in-full"] near=["by-name", "substring", "number-of-groups-in-brackets", "elements"]
def kinds(text):
    return re.findall(rf"%({'|'.join(KINDS)})", text)


def bytes_of(type):
    return sum(
        ELEMENT[element] * sum(map(int, filter(None, sizes.split(","))))
        for element, sizes in re.findall(r"(\w+)\[([\d,]*)\]", type)
    )


def group_size(line):
    groups = line.split("replica_groups=")[1]
    if groups.startswith("{{"):
        return groups.count("},{") + 1
    if groups.startswith("["):
        return int(re.match(r"\[\d+,(\d+)\]", groups).group(1))
    mesh, along = re.match(r"mesh\[(.*?)\] \{(.*?)\}", groups).groups()
    sizes = dict(axis.split("=") for axis in mesh.split(","))
    return math.prod(int(sizes[axis]) for axis in along.split(","))


# %% what is to the right, without -done; one axis of those in braces exercise="4.1" score=0 diagnoses=["right-of-equals", "unanswered", "one-axis"] near=["substring", "in-quotes-too", "any-axis", "whole-mesh", "number-of-groups-of-a-mesh"]
def kinds(text):
    found = []
    for row in text.splitlines():
        if " = " in row and "-done" not in row:
            found += [kind for kind in KINDS if kind in row.split(" = ")[1]][:1]
    return found


def group_size(line):
    groups = line.split("replica_groups=")[1]
    if groups.startswith("{{"):
        return len(groups[2:].split("}")[0].split(","))
    if groups.startswith("["):
        return int(re.match(r"\[\d+,(\d+)\]", groups).group(1))
    mesh, along = re.match(r"mesh\[(.*?)\] \{(.*?)\}", groups).groups()
    sizes = dict(axis.split("=") for axis in mesh.split(","))
    return int(sizes[along.split(",")[0]])


# %% split at spaces; the first axis of the mesh exercise="4.1" score=0 diagnoses=["root-and-tuples-missed", "unanswered", "any-axis"] near=["tuples-missed", "root-missed", "root-missed-both-halves", "one-axis"]
def kinds(text):
    found = []
    for row in text.splitlines():
        words = row.split()
        if len(words) > 2 and words[1] == "=":
            found.append(words[3].split("(")[0].removesuffix("-start"))
    return [kind for kind in found if kind in KINDS]


def group_size(line):
    groups = line.split("replica_groups=")[1]
    if groups.startswith("{{"):
        return len(groups[2:].split("}")[0].split(","))
    if groups.startswith("["):
        return int(re.match(r"\[\d+,(\d+)\]", groups).group(1))
    return int(re.search(r"=(\d+)", groups).group(1))


# %% both halves, without the last line; the order for the size exercise="4.1" score=0 diagnoses=["root-missed-both-halves", "unanswered", "order-of-devices"] near=["both-halves", "root-missed", "root-and-tuples-missed", "number-of-groups-in-brackets"]
def kinds(text):
    opcodes = re.findall(r"^ *%\S+ = (?:\(.*?\)|\S+) ([\w-]+)\(", text, re.MULTILINE)
    return [k for k in (re.sub("-(start|done)", "", o) for o in opcodes) if k in KINDS]


def group_size(line):
    groups = line.split("replica_groups=")[1]
    if groups.startswith("{{"):
        return len(groups[2:].split("}")[0].split(","))
    if groups.startswith("["):
        return int(re.search(r"<=\[(?:\d+,)?(\d+)\]", groups).group(1))
    mesh, along = re.match(r"mesh\[(.*?)\] \{(.*?)\}", groups).groups()
    sizes = dict(axis.split("=") for axis in mesh.split(","))
    return math.prod(int(sizes[axis]) for axis in along.split(","))


# %% only their number; groups of a mesh counted exercise="4.1" score=0 diagnoses=["how-many", "unanswered", "number-of-groups-of-a-mesh"] near=["other-kind", "each-kind-once", "whole-mesh", "number-of-groups-in-some-forms"]
def kinds(text):
    opcodes = re.findall(r"^ *(?:ROOT )?%\S+ = (?:\(.*?\)|\S+) ([\w-]+)\(", text, re.MULTILINE)
    return sum(opcode.removesuffix("-start") in KINDS for opcode in opcodes)


def group_size(line):
    groups = line.split("replica_groups=")[1]
    if groups.startswith("{{"):
        return len(groups[2:].split("}")[0].split(","))
    if groups.startswith("["):
        return int(re.match(r"\[\d+,(\d+)\]", groups).group(1))
    mesh, along = re.match(r"mesh\[(.*?)\] \{(.*?)\}", groups).groups()
    sizes = dict(axis.split("=") for axis in mesh.split(","))
    return math.prod(int(size) for axis, size in sizes.items() if axis not in along.split(","))


# %% a count of each kind; groups counted in two forms of three exercise="4.1" score=0 diagnoses=["other-kind", "unanswered", "number-of-groups-in-some-forms"] near=["how-many", "number-of-groups", "number-of-groups-in-full", "largest-of-tuple", "sizes-added", "bits"]
def kinds(text):
    opcodes = re.findall(r"^ *(?:ROOT )?%\S+ = (?:\(.*?\)|\S+) ([\w-]+)\(", text, re.MULTILINE)
    return {kind: opcodes.count(kind) for kind in KINDS}


def group_size(line):
    groups = line.split("replica_groups=")[1]
    if groups.startswith("{{"):
        return groups.count("},{") + 1
    if groups.startswith("["):
        return int(re.match(r"\[(\d+),\d+\]", groups).group(1))
    mesh, along = re.match(r"mesh\[(.*?)\] \{(.*?)\}", groups).groups()
    sizes = dict(axis.split("=") for axis in mesh.split(","))
    return math.prod(int(sizes[axis]) for axis in along.split(","))


# %% all devices, where they are listed or a mesh exercise="4.1" score=0 diagnoses=["unanswered", "all-devices-in-some-forms"] near=["all-devices", "whole-mesh", "after-percent", "right-of-equals"]
def group_size(line):
    groups = line.split("replica_groups=")[1]
    if groups.startswith("["):
        return int(re.match(r"\[\d+,(\d+)\]", groups).group(1))
    if groups.startswith("{{"):
        return len(re.findall(r"\d+", groups))
    return math.prod(map(int, re.findall(r"=(\d+)", groups)))


# %% a table of factors, and bytes first exercise="4.2" score=1 near=["reduced-once", "whole-buffer", "permuted-in-a-ring", "whole-array", "buffer", "my-block", "all", "one-piece", "all-devices", "block-for-buffer", "one-formula", "whole-buffer-once", "block-and-reduced-once", "eight-in-a-group", "four-in-a-group", "bytes", "megabytes", "once-or-half", "half", "n-minus-one-pieces", "permuted-piece", "one-piece-exchanged"]
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


# %% an all-reduce goes round once exercise="4.2" score=0.3333333333 diagnoses=["reduced-once", "once-or-half"] near=["whole-buffer", "one-piece", "buffer", "my-block"]
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


# %% of the whole array, and on all devices exercise="4.2" score=0 diagnoses=["all-devices", "twice", "all", "whole-array"] near=["buffer-along-x", "quarter-of-the-buffer", "block-for-buffer", "buffer", "my-block"]
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


# %% one step of the ring, and one's own block exercise="4.2" score=0 diagnoses=["one-piece", "my-block", "other-prediction", "one-piece-exchanged"] near=["twice", "whole-buffer", "all-devices", "reduced-once"]
def sent(kind, n, size):
    return (2 if kind == "all-reduce" else 1) * size / n


mib = {
    "gather along x": 16,
    "gather along x and y": 16,
    "add up along x": 17,
    "exchange along x": 8,
}


# %% from a block's size, and permutations in a ring exercise="4.2" score=0 diagnoses=["block-for-buffer", "unanswered"] near=["all-devices", "whole-buffers"]
def sent(kind, n, size):
    if kind == "collective-permute":
        return size
    return (2 if kind == "all-reduce" else 1) * (n - 1) * size


# %% everything goes round exercise="4.2" score=0 diagnoses=["permuted-in-a-ring", "unanswered"] near=["pieces", "whole-buffer", "block-for-buffer"]
def sent(kind, n, size):
    return (n - 1) / n * size * (2 if kind == "all-reduce" else 1)


# %% one formula for all kinds, and eight devices in every group exercise="4.2" score=0 diagnoses=["one-formula", "eight-in-a-group"] near=["reduced-once", "permuted-in-a-ring", "block-for-buffer", "whole-array"]
def sent(kind, n, size):
    return (n - 1) / n * size


mib = {
    "gather along x": 7 / 8 * 64,
    "gather along x and y": 112,
    "add up along x": 2 * 7 / 8 * 64,
    "exchange along x": 7 / 8 * 32,
}


# %% n - 1 whole buffers, and bytes for MiB exercise="4.2" score=0 diagnoses=["block-and-reduced-once", "bytes"] near=["block-for-buffer", "all-devices", "one-formula", "twice", "megabytes"]
def sent(kind, n, size):
    return (n - 1) * size


mib = {
    "gather along x": 48 * 2**20,
    "gather along x and y": 112 * 2**20,
    "add up along x": 96 * 2**20,
    "exchange along x": 24 * 2**20,
}


# %% the buffer, whatever the kind, and MB exercise="4.2" score=0 diagnoses=["whole-buffer-once", "megabytes"] near=["whole-buffer", "bytes", "one-formula"]
def sent(kind, n, size):
    return size


mib = {cell: right * 1.048576 for cell, right in zip(mib, (48, 112, 96, 24))}


# %% pieces in place of bytes exercise="4.2" score=0 diagnoses=["pieces", "unanswered"] near=["one-piece", "block-for-buffer"]
def sent(kind, n, size):
    if kind == "collective-permute":
        return 1
    return (2 if kind == "all-reduce" else 1) * (n - 1)


# %% four devices in every group exercise="4.2" score=0.3333333333 diagnoses=["unanswered", "four-in-a-group"] near=["eight-in-a-group", "twice"]
mib = {cell: sum(right) for cell, right in zip(mib, ([48], [3 / 4 * 128], [96], [24]))}


# %% by what the report says of each exercise="4.3" score=1 near=["half-left-out", "all-of-v", "block-of-v", "moved-not-sent", "on-eight", "passes", "body-once", "written-once", "sent", "loop-unknown", "inner-loop-only", "outer-loop-only", "one-loop-forgotten", "not-moved-out", "its-block", "counted-once", "nobody-knows", "maximum-once", "maximum-too-often", "all-devices", "fraction-lost", "gathers-a", "maximum-alone", "not-at-all"]
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
on_sixteen = {name: reports[name].sent * (15 / 16) / (7 / 8) for name in on_sixteen}

# %% what the reports say, for eight devices, in both tables exercise="4.3" score=0.5 diagnoses=["on-eight"] near=["moved-not-sent", "sent", "passes"]
reports = {
    "centred": communication(centred, v),
    "written_out": communication(written_out, v),
    "nested": communication(nested, v),
    "same_weights": communication(same_weights, a, w),
    "other_weights": communication(other_weights, a, ws),
}
moved = {name: report.bytes for name, report in reports.items()} | {"until_small": "unknown"}
on_sixteen = {name: reports[name].sent for name in on_sixteen}

# %% all of v for a mean; sixteen devices move what eight do exercise="4.3" score=0.25 diagnoses=["all-of-v", "moved-not-sent", "one-loop-forgotten"] near=["block-of-v", "its-block", "on-eight", "passes"]
moved = {
    "centred": 7 * 512,
    "written_out": 7 * 512,
    "nested": 3 * (4 * 512 + 512),
    "same_weights": 1024,
    "other_weights": 5120,
    "until_small": "unknown",
}
on_sixteen = {name: moved[name] for name in on_sixteen}
on_sixteen |= {"centred": 28, "nested": 60}

# %% a block of v for a mean; a gather counted as an all-reduce, and the other way round exercise="4.3" score=0.25 diagnoses=["block-of-v", "passes"] near=["all-of-v", "sent", "moved-not-sent"]
moved = {
    "centred": 7 * 64,
    "written_out": 7 * 64,
    "nested": 15 * 64,
    "same_weights": 1024,
    "other_weights": 5120,
    "until_small": "unknown",
}
on_sixteen = {
    "centred": 7 * 15 / 16 * 4,
    "nested": 15 * 15 / 16 * 4,
    "same_weights": 2 * 960,
    "other_weights": 2 * 4800,
}

# %% each body once exercise="4.3" score=0.0625 diagnoses=["body-once", "counted-once", "unanswered"] near=["loop-unknown", "one-loop-forgotten", "sent", "not-moved-out"]
moved = {
    "centred": 4,
    "written_out": 28,
    "nested": 8,
    "same_weights": 1024,
    "other_weights": 1024,
    "until_small": 4,
}

# %% the inner loop alone, and nothing moved out exercise="4.3" score=0.25 diagnoses=["inner-loop-only", "not-moved-out", "unanswered"] near=["outer-loop-only", "body-once", "its-block"]
moved = {
    "centred": 28,
    "written_out": 28,
    "nested": 48,
    "same_weights": 5120,
    "other_weights": 5120,
    "until_small": "unknown",
}

# %% the outer loop alone, and blocks exercise="4.3" score=0.125 diagnoses=["outer-loop-only", "its-block", "unanswered"] near=["inner-loop-only", "one-loop-forgotten"]
moved = {
    "centred": 28,
    "written_out": 28,
    "nested": 24,
    "same_weights": 128,
    "other_weights": 640,
    "until_small": "unknown",
}

# %% what is sent, and loops that nobody knows exercise="4.3" score=0 diagnoses=["loop-unknown", "sent", "unanswered"] near=["body-once", "counted-once", "reduced-twice"]
moved = {
    "centred": "unknown",
    "written_out": 49,
    "nested": 105,
    "same_weights": 896,
    "other_weights": 4480,
    "until_small": "unknown",
}

# %% loops that are added, not multiplied exercise="4.3" score=0.375 diagnoses=["one-loop-forgotten", "unanswered"] near=["inner-loop-only", "outer-loop-only"]
moved = {
    "centred": 28,
    "written_out": 28,
    "nested": 4 * (3 + 4),
    "same_weights": 1024,
    "other_weights": 5120,
    "until_small": "unknown",
}

# %% everything written out is one round, and the maximum is outside exercise="4.3" score=0.1875 diagnoses=["written-once", "maximum-once", "nobody-knows", "unanswered"] near=["body-once", "inner-loop-only", "counted-once"]
moved = {
    "centred": 28,
    "written_out": 4,
    "nested": 52,
    "same_weights": 1024,
    "other_weights": 5120,
    "until_small": 28,
}

# %% all devices together, and the maximum in every round exercise="4.3" score=0.3125 diagnoses=["all-devices", "maximum-too-often", "unanswered"] near=["sent", "outer-loop-only"]
moved = {
    "centred": 224,
    "written_out": 28,
    "nested": 96,
    "same_weights": 1024,
    "other_weights": 5120,
    "until_small": "unknown",
}

# %% bytes that are divided without a rest exercise="4.3" score=0.6666666667 diagnoses=["fraction-lost"] near=["inner-loop-only", "passes"]
moved = {
    "centred": 28,
    "written_out": 28,
    "nested": 60,
    "same_weights": 1024,
    "other_weights": 5120,
    "until_small": "unknown",
}
on_sixteen = {
    "centred": 7 * (2 * (15 * 4 // 16)),
    "nested": 15 * (2 * (15 * 4 // 16)),
    "same_weights": 15 * 1024 // 16,
    "other_weights": 15 * 5120 // 16,
}

# %% words for numbers, NaN, a size below zero exercise="4.3" score=0 diagnoses=["other-form", "other-prediction", "unanswered"] near=["half-of-it"]
moved |= {
    "centred": "28",
    "written_out": float("nan"),
    "nested": -60,
    "same_weights": None,
}

# %% asked of the program exercise="4.4" score=1 near=["all-of-it", "percent", "always-an-eighth", "operations", "upside-down", "only-four", "terms-are-shared", "gathered-first", "all-blocks"]
share = {name: communication(product, *args).flops / whole for name, args in cases.items()}
on_512 = {cell: 1 / count for cell, count in zip(on_512, (8, 32, 128, 512, 4), strict=True)}

# %% asked of the program, and nothing said of 512 devices exercise="4.4" score=0.5 diagnoses=["unanswered"] near=["always-a-512th"]
share = {name: communication(product, *args).flops / whole for name, args in cases.items()}

# %% a fair share of 512, everywhere exercise="4.4" score=0.5 diagnoses=["always-a-512th"] near=["always-an-eighth", "axes-added", "one-axis-left-out"]
share = {name: communication(product, *args).flops / whole for name, args in cases.items()}
on_512 = dict.fromkeys(on_512, 1 / 512)

# %% sizes of axes added up; a quarter of a quarter exercise="4.4" score=0.4444444444 diagnoses=["quarter-counted-twice", "axes-added"] near=["all-blocks", "one-axis-left-out", "always-a-512th"]
share = {name: communication(product, *args).flops / whole for name, args in cases.items()}
share["columns over x, rows over x"] = 1 / 16
on_512 |= {
    "rows over y, a copy": 1 / 8,
    "a copy, columns over y and z": 1 / 12,
    "rows over x, columns over y": 1 / 24,
    "rows over x and z, columns over y": 1 / 28,
    "columns over z, rows over z": 1 / 16,
}

# %% the cut of one matrix alone exercise="4.4" score=0.25 diagnoses=["unanswered", "one-axis-left-out"] near=["axes-added", "quarter-counted-twice"]
on_512 |= {
    "rows over y, a copy": 1 / 8,
    "a copy, columns over y and z": 1 / 32,
    "rows over x, columns over y": 1 / 16,
    "rows over x and z, columns over y": 1 / 64,
    "columns over z, rows over z": 1 / 4,
}

# %% always an eighth exercise="4.4" score=0 diagnoses=["always-an-eighth", "only-four", "unanswered"] near=["all-of-it", "all-blocks"]
share = dict.fromkeys(share, 1 / 8)

# %% who communicates has to do everything exercise="4.4" score=0.3611111111 diagnoses=["terms-are-shared", "gathered-first", "unanswered"] near=["malformed", "always-an-eighth", "all-of-it"]
share = {
    "rows over x and y, a copy": 1 / 8,
    "rows over x, a copy": 1 / 4,
    "a copy, a copy": 1,
    "columns over x, rows over x": 1,
    "a copy, columns over y": 1 / 2,
    "blocks, blocks": 1,
    "rows over four devices, a copy": 1 / 4,
}

# %% a copy means all the work exercise="4.4" score=0.0555555556 diagnoses=["all-of-it", "all-blocks", "unanswered"] near=["gathered-first", "percent"]
share = {
    "rows over x and y, a copy": 1,
    "rows over x, a copy": 1,
    "a copy, a copy": 1,
    "columns over x, rows over x": 1 / 4,
    "a copy, columns over y": 1,
    "blocks, blocks": 1 / 64,
    "rows over four devices, a copy": 1,
}

# %% in percent exercise="4.4" score=0 diagnoses=["percent", "unanswered"] near=["always-an-eighth"]
share = {name: 100 * communication(product, *args).flops / whole for name, args in cases.items()}

# %% operations, not divided exercise="4.4" score=0 diagnoses=["operations", "unanswered"] near=["percent", "upside-down"]
share = {name: communication(product, *args).flops for name, args in cases.items()}

# %% upside down exercise="4.4" score=0 diagnoses=["upside-down", "unanswered"] near=["operations"]
share = {name: whole / communication(product, *args).flops for name, args in cases.items()}

# %% a cell is missing, and one is in quotes exercise="4.4" score=0 diagnoses=["other-form", "unanswered", "malformed"]
share["rows over x and y, a copy"] = "1/8"
del share["blocks, blocks"]


# %% seconds set equal, and solved by trying exercise="4.5" score=1 near=["on_machines: reduced-once", "all-rows", "reduced-once", "twice-as-much", "rows: twice-as-much", "width: twice-as-much", "one-product", "two-products", "n-left-out", "upside-down", "width-of-a-device", "four-devices", "bits-for-bytes"]
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


# %% one product of three, and one of two exercise="4.5" score=0 diagnoses=["one-product", "twice-as-much", "unanswered"] near=["two-products", "reduced-once", "rows-for-width", "width-for-rows"]
def rows(n, flops, link):
    return 2 * (n - 1) / n * 2 / link * flops / 2


def width(n, flops, link):
    return 2 * (n - 1) / n * 2 / link * flops / 2 * n


# %% two products, and a whole buffer exercise="4.5" score=0 diagnoses=["two-products", "n-left-out", "unanswered"] near=["width-of-a-device", "all-rows"]
def rows(n, flops, link):
    return 2 * (n - 1) / n * 2 / link * flops / 4


def width(n, flops, link):
    return 2 * 2 / link * flops / 4 * n


# %% one operation a term, and a fraction turned over exercise="4.5" score=0 diagnoses=["twice-as-much", "upside-down", "unanswered"] near=["machine-upside-down", "one-product", "two-products"]
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


# %% differences of seconds exercise="4.6" score=1 near=["all-in-each-step-of-both", "n-in-one-and-reduced-once", "all-in-each-step", "rounded-down", "twice-as-long", "n-left-out", "work-exchanged", "reduced-once", "bytes-alone", "at-the-same-time", "exchanged", "input-for-result", "n-in-one", "n-in-the-other", "always-gather", "always-add-up", "upside-down", "block-of-weights"]
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


# %% bytes alone, of once round exercise="4.6" score=0 diagnoses=["reduced-once", "bytes-alone-reduced-once"] near=["bytes-alone", "at-the-same-time", "piece-of-the-result"]
def same_bytes(d, f, n):
    return d


def faster(rows, d, f, n, flops, link):
    return "gather" if rows > d else "add up"


# %% rounded up, and numbers of one byte exercise="4.6" score=0 diagnoses=["rounded-down", "half-as-long"] near=["twice-as-long", "reduced-once"]
def same_bytes(d, f, n):
    return round(d / 2)


def faster(rows, d, f, n, flops, link):
    gather = 2 * rows * d * f / flops + (n - 1) / n * d * f / link
    add_up = 2 * rows * d * f / n / flops + 2 * (n - 1) / n * rows * f / link
    return "gather" if gather < add_up else "add up"


# %% a block of the weights gathered exercise="4.6" score=0 diagnoses=["unanswered", "block-of-weights"] near=["input-for-result", "n-left-out"]
def faster(rows, d, f, n, flops, link):
    once_round = (n - 1) / n * 2 / link
    gather = 2 * rows * d * f / flops + once_round * d * f / n
    add_up = 2 * rows * d * f / n / flops + 2 * once_round * rows * f
    return "gather" if gather < add_up else "add up"


# %% the input added up exercise="4.6" score=0 diagnoses=["unanswered", "input-for-result"] near=["block-of-weights", "bytes-alone-exchanged", "half-as-long"]
def faster(rows, d, f, n, flops, link):
    once_round = (n - 1) / n * 2 / link
    gather = 2 * rows * d * f / flops + once_round * d * f
    add_up = 2 * rows * d * f / n / flops + 2 * once_round * rows * d
    return "gather" if gather < add_up else "add up"


# %% few rows gather exercise="4.6" score=0.5 diagnoses=["bytes-alone-exchanged"] near=["bytes-alone", "exchanged"]
def same_bytes(d, f, n):
    return d / 2


def faster(rows, d, f, n, flops, link):
    return "gather" if rows < same_bytes(d, f, n) else "add up"


# %% by another size exercise="4.6" score=0 diagnoses=["unanswered", "other-result"] near=["bytes-alone", "bytes-alone-reduced-once", "at-the-same-time", "reduced-once", "exchanged"]
def faster(rows, d, f, n, flops, link):
    return "gather" if rows > f else "add up"


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


# %% whole buffers exercise="4.6" score=0.5 diagnoses=["n-left-out"] near=["times-n", "twice-as-long", "bytes-alone"]
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


# %% by hand, from the bytes and the work of each exercise="4.7" score=1 near=["weights-are-heavy", "copies-cost-work", "work-is-cheap", "one-axis-alone", "activations-are-heavy", "axes-share", "twice-the-weights"]
for cell in fastest:
    machine, count = cell.removesuffix(" rows").rsplit(", ", 1)
    count = int(count.replace(",", ""))
    chip, weights, work = MACHINES[machine], 2 * 4096 * 16384 * 2, 10 * count * 4096 * 16384
    batch = 2 * count * 4096
    over_both = chip.link * (2 if chip.torus else 1)
    times = {
        "copies": work / chip.flops,
        "data": work / 8 / chip.flops + 2 * 7 / 8 * weights / over_both,
        "tensor": work / 8 / chip.flops + 2 * 7 / 8 * batch / over_both,
        "both": work / 8 / chip.flops
        + (2 * 3 / 4 * weights / 2 + 2 * 1 / 2 * batch / 4) / chip.link,
    }
    fastest[cell] = min(times, key=times.get)
on_256 = dict.fromkeys(on_256, "both")
on_256 |= {"fast links, 1,024 rows": "tensor", "slow links, 1,024 rows": "copies"}

# %% by hand, with a ring through all devices of a torus exercise="4.7" score=0.9629629630 diagnoses=["in-one-ring"] near=["axes-share", "at-the-same-time", "twice-the-weights"]
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
on_256 = dict.fromkeys(on_256, "both")
on_256 |= {"fast links, 1,024 rows": "tensor", "slow links, 1,024 rows": "copies"}

# %% asked of seconds, and nothing said of 256 devices exercise="4.7" score=0.3333333333 diagnoses=["unanswered"] near=["as-on-eight", "at-the-same-time"]
for machine in MACHINES:
    for count in (1_024, 65_536, 524_288):
        fastest[f"{machine}, {count:,} rows"] = min(
            layouts, key=lambda name: seconds(name, count, machine)
        )

# %% asked of seconds, with machines that are like the two that there are not exercise="4.7" score=0.6666666667 diagnoses=["as-on-eight"] near=["activations-travel", "weights-travel", "copies-cost-work"]
for machine in MACHINES:
    for count in (1_024, 65_536, 524_288):
        fastest[f"{machine}, {count:,} rows"] = min(
            layouts, key=lambda name: seconds(name, count, machine)
        )
for cell in on_256:
    machine, count = cell.removesuffix(" rows").split(", ")
    chip = "TPU v5e" if machine == "fast links" else "H100 100G Ethernet"
    count = int(count.replace(",", ""))
    on_256[cell] = min(layouts, key=lambda name: seconds(name, count, chip))

# %% the longer of the two times; all send what tensor parallelism sends exercise="4.7" score=0.2777777778 diagnoses=["one-axis-alone", "activations-travel", "work-is-cheap-on-slow-links"] near=["at-the-same-time", "in-one-ring", "as-on-eight", "weights-travel", "work-is-cheap"]
for cell in fastest:
    machine, count = cell.removesuffix(" rows").rsplit(", ", 1)
    report = {}
    for name in layouts:
        asked = step_report(layouts[name], int(count.replace(",", "")), machine)
        report[name] = max(asked.compute_seconds, asked.communication_seconds)
    fastest[cell] = min(report, key=report.get)
on_256 = dict.fromkeys(on_256, "tensor")

# %% data parallelism on 256 devices exercise="4.7" score=0 diagnoses=["unanswered", "weights-travel", "all-of-the-weights"] near=["as-on-eight", "activations-travel", "weights-are-heavy", "work-is-cheap-on-slow-links"]
on_256 = dict.fromkeys(on_256, "data")

# %% tensor parallelism everywhere exercise="4.7" score=0 diagnoses=["work-is-cheap", "twice-the-weights", "one-axis-alone", "activations-are-heavy", "unanswered"] near=["copies-cost-work", "weights-are-heavy", "at-the-same-time"]
fastest = dict.fromkeys(fastest, "tensor")

# %% data parallelism everywhere exercise="4.7" score=0 diagnoses=["weights-are-heavy", "one-axis-alone", "unanswered"] near=["activations-are-heavy", "work-is-cheap"]
fastest = dict.fromkeys(fastest, "data")

# %% nothing to send is always best exercise="4.7" score=0 diagnoses=["copies-cost-work", "unanswered"] near=["work-is-cheap", "one-axis-alone"]
fastest = dict.fromkeys(fastest, "copies")

# %% the machine does not matter exercise="4.7" score=0.1851851852 diagnoses=["work-is-cheap", "axes-share", "unanswered"] near=["weights-are-heavy", "copies-cost-work"]
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

# %% whose sums go to the layout of the weights exercise="4.8" score=1 near=["waits-for-data", "works-too-much"]
layout = (on(grid, "y"), on(grid, None, ("x", "y")), on(grid, ("x", "y")))

# %% on two meshes exercise="4.8" score=0 diagnoses=["several-meshes"] near=["different-devices"]
wide = jax.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
layout = (on(wide, "x"), on(grid, "y", "x"), on(grid, ("x", "y")))

# %% everything in rows, as it was shown exercise="4.8" score=0 diagnoses=["waits-for-data"] near=["over-the-cap"]
layout = (on(grid, ("x", "y")), on(grid, ("x", "y")), on(grid, ("x", "y")))

# %% everything in blocks exercise="4.8" score=0.188 diagnoses=["waits-for-data"]
layout = (on(grid, "x", "y"),) * 3

# %% the batch and the columns exercise="4.8" score=0.75 diagnoses=["waits-for-data"]
layout = (on(grid, "y", "x"), on(grid, "y", "x"), on(grid, ("x", "y")))

# %% data parallelism exercise="4.8" score=0 diagnoses=["over-the-cap"] near=["waits-for-data"]
layout = (on(grid, ("x", "y")), on(grid), on(grid))

# %% four of the devices exercise="4.8" score=0 diagnoses=["devices-unused"] near=["one-device"]
layout = (on(four, "x"), on(four, "x"), on(four, "x"))

# %% one device exercise="4.8" score=0 diagnoses=["one-device"] near=["devices-unused"]
alone = jax.make_mesh((1,), ("x",), axis_types=(AxisType.Auto,), devices=devices[:1])
layout = (on(alone), on(alone), on(alone))


# %% d n / 2 exercise="4.6" score=0 diagnoses=["times-n", "always-gather"] near=["block-sent-once"]
def same_bytes(d, f, n):
    return d * n / 2


def faster(rows, d, f, n, flops, link):
    return "gather"


# %% flops and link exchanged in width exercise="4.5" score=0 diagnoses=["unanswered", "machine-upside-down"]
def width(n, flops, link):
    return (n - 1) * link / flops


# %% two buffers of other layouts exercise="4.2" score=0.166666666667 diagnoses=["unanswered", "buffer-along-x", "quarter-of-the-buffer"]
mib = {
    "gather along x": 48,
    "gather along x and y": 56,
    "add up along x": 96,
    "exchange along x": 6,
}


# %% every half with its suffix exercise="4.1" score=0 diagnoses=["both-halves-with-the-suffix", "unanswered"] near=["done-for-a-kind"]
def kinds(text):
    opcodes = re.findall(r"^ *(?:ROOT )?%\S+ = (?:\(.*?\)|\S+) ([\w-]+)\(", text, re.MULTILINE)
    return [o for o in opcodes if any(o.startswith(kind) for kind in KINDS)]


# %% what is done under its own name exercise="4.1" score=0 diagnoses=["done-for-a-kind", "unanswered"] near=["both-halves-with-the-suffix"]
def kinds(text):
    opcodes = re.findall(r"^ *(?:ROOT )?%\S+ = (?:\(.*?\)|\S+) ([\w-]+)\(", text, re.MULTILINE)
    return [o for o in opcodes if o.removesuffix("-done") in KINDS]


# %% both halves, sorted exercise="4.1" score=0 diagnoses=["both-halves", "unanswered"] near=["both-halves-with-the-suffix", "done-for-a-kind"]
def kinds(text):
    opcodes = re.findall(r"^ *(?:ROOT )?%\S+ = (?:\(.*?\)|\S+) ([\w-]+)\(", text, re.MULTILINE)
    return sorted(o for o in (re.sub("-(start|done)", "", o) for o in opcodes) if o in KINDS)


# %% the last pair in brackets exercise="4.1" score=0.6666666667 diagnoses=["last-brackets"] near=["sizes-of-axes-added"]
def kinds(text):
    found = []
    for line in text.splitlines():
        m = re.match(r"\s*(?:ROOT )?%\S+ = (?:\(.*?\)|\S+) ([a-z-]+)\(", line)
        if m:
            op = m[1].removesuffix("-start")
            if op in KINDS:
                found.append(op)
    return found


def bytes_of(type):
    total = 0
    for t, sizes in re.findall(r"([a-z]+[0-9]*)\[([0-9,]*)\]", type):
        total += ELEMENT[t] * math.prod(int(s) for s in sizes.split(",") if s)
    return total


def group_size(line):
    m = re.search(r"replica_groups=\{\{([0-9,]+)\}", line)
    if m:
        return len(m[1].split(","))
    m = re.findall(r"\[(\d+),(\d+)\]", line)
    if m and "mesh" not in line:
        return int(m[-1][1])
    m = re.search(r"replica_groups=mesh\[(.*?)\] *\{(.*?)\}", line)
    sizes = dict(p.split("=") for p in m[1].split(","))
    return math.prod(int(sizes[a.strip()]) for a in m[2].split(","))


# %% whole buffers in the rings of one pass exercise="4.2" score=0 diagnoses=["block-for-buffer-in-one-ring", "twice", "whole-array"] near=["divided-by-both-axes"]
def sent(kind, n, size):
    if kind == "all-reduce":
        return 2 * (n - 1) * size // n
    if kind == "collective-permute":
        return size
    return (n - 1) * size


mib = dict(
    zip(
        ["gather along x", "gather along x and y", "add up along x", "exchange along x"],
        [96, 112, 192, 96],
    )
)


# %% buffers before the collective exercise="4.2" score=0.5 diagnoses=["my-block", "divided-by-both-axes"] near=["block-for-buffer-in-one-ring"]
def sent(kind, n, size):
    if kind == "all-reduce":
        return 2 * (n - 1) * size // n
    if kind == "collective-permute":
        return size
    return (n - 1) * size // n


mib = dict(
    zip(
        ["gather along x", "gather along x and y", "add up along x", "exchange along x"],
        [12, 14, 24, 12],
    )
)


# %% half of the weights on sixteen exercise="4.3" score=0.6666666667 diagnoses=["half-of-it"]
moved = dict(
    zip(
        ["centred", "written_out", "nested", "same_weights", "other_weights", "until_small"],
        [28, 28, 60, 1024, 5120, "unknown"],
    )
)
on_sixteen = dict(
    zip(["centred", "nested", "same_weights", "other_weights"], [52.5, 112.5, 480, 2400])
)


# %% copies that share nothing exercise="4.4" score=0.75 diagnoses=["copies-share-nothing", "one-dimension-alone"] near=["other-axis"]
share = dict(
    zip(
        [
            "rows over x and y, a copy",
            "rows over x, a copy",
            "a copy, a copy",
            "a copy, columns over y",
            "columns over x, rows over x",
            "blocks, blocks",
            "rows over four devices, a copy",
        ],
        [1 / 8, 1 / 4, 1 / 2, 1 / 2, 1 / 4, 1 / 2, 1 / 4],
    )
)
on_512 = dict(
    zip(
        [
            "rows over y, a copy",
            "a copy, columns over y and z",
            "rows over x, columns over y",
            "rows over x and z, columns over y",
            "columns over z, rows over z",
        ],
        [1 / 8, 1 / 32, 1 / 128, 1 / 512, 1 / 4],
    )
)


# %% half of the rows on four devices exercise="4.4" score=0.8194444444 diagnoses=["half-of-the-rows", "one-axis-left-out"] near=["axes-mixed-up"]
share = dict(
    zip(
        [
            "rows over x and y, a copy",
            "rows over x, a copy",
            "a copy, a copy",
            "a copy, columns over y",
            "columns over x, rows over x",
            "blocks, blocks",
            "rows over four devices, a copy",
        ],
        [1 / 8, 1 / 4, 1, 1 / 2, 1 / 4, 1 / 8, 1 / 2],
    )
)
on_512 = dict(
    zip(
        [
            "rows over y, a copy",
            "a copy, columns over y and z",
            "rows over x, columns over y",
            "rows over x and z, columns over y",
            "columns over z, rows over z",
        ],
        [1 / 8, 1 / 32, 1 / 128, 1 / 128, 1 / 4],
    )
)


# %% the axes of 512 devices mixed up exercise="4.4" score=0.625 diagnoses=["axes-mixed-up", "quarter-counted-twice"] near=["copies-share-nothing", "half-of-the-rows", "one-dimension-alone", "no-work"]
share = dict(
    zip(
        [
            "rows over x and y, a copy",
            "rows over x, a copy",
            "a copy, a copy",
            "a copy, columns over y",
            "columns over x, rows over x",
            "blocks, blocks",
            "rows over four devices, a copy",
        ],
        [1 / 8, 1 / 4, 1, 1 / 2, 1 / 4, 1 / 8, 1 / 4],
    )
)
on_512 = dict(
    zip(
        [
            "rows over y, a copy",
            "a copy, columns over y and z",
            "rows over x, columns over y",
            "rows over x and z, columns over y",
            "columns over z, rows over z",
        ],
        [1 / 16, 1 / 64, 1 / 128, 1 / 512, 1 / 16],
    )
)


# %% four products exercise="4.5" score=0.4666666667 diagnoses=["four-products"] near=["backward-too"]
def rows(n, flops, link):
    return (n - 1) / n * flops / link / 2


def width(n, flops, link):
    return (n - 1) * flops / link


at = lambda f, m: f(8, MACHINES[m].flops, MACHINES[m].link)
on_machines = {
    "rows, TPU v5e": at(rows, "TPU v5e"),
    "rows, H100 100G Ethernet": at(rows, "H100 100G Ethernet"),
    "width, TPU v5e": at(width, "TPU v5e"),
    "width, H100 NVLink": at(width, "H100 NVLink"),
}


# %% the rows of the batch; a machine upside down exercise="4.5" score=0 diagnoses=["all-rows", "machine-upside-down"]
def rows(n, flops, link):
    return 2 / 3 * (n - 1) * flops / link


def width(n, flops, link):
    return (n - 1) * link / flops


at = lambda f, m: f(8, MACHINES[m].flops, MACHINES[m].link)
on_machines = {
    "rows, TPU v5e": at(rows, "TPU v5e"),
    "rows, H100 100G Ethernet": at(rows, "H100 100G Ethernet"),
    "width, TPU v5e": at(width, "TPU v5e"),
    "width, H100 NVLink": at(width, "H100 NVLink"),
}


# %% a cell without (n - 1)/n exercise="4.5" score=0.8666666667 diagnoses=["n-left-out", "width-of-a-device"] near=["four-products"]
def rows(n, flops, link):
    return 2 / 3 * (n - 1) / n * flops / link


def width(n, flops, link):
    return (n - 1) * flops / link


at = lambda f, m: f(8, MACHINES[m].flops, MACHINES[m].link)
on_machines = {
    "rows, TPU v5e": at(rows, "TPU v5e"),
    "rows, H100 100G Ethernet": at(rows, "H100 100G Ethernet"),
    "width, TPU v5e": at(width, "TPU v5e"),
    "width, H100 NVLink": at(width, "H100 NVLink"),
}

on_machines["rows, TPU v5e"] = 1313
on_machines["width, H100 NVLink"] = 1924


# %% the block of weights sent once exercise="4.6" score=0 diagnoses=["block-of-weights", "block-sent-once"]
def same_bytes(d, f, n):
    return d / (2 * n)


def faster(rows, d, f, n, flops, link):
    gather = 2 * rows * d * f / flops + 2 * d * f / n / link
    add = 2 * rows * d * f / n / flops + 2 * (n - 1) / n * 2 * rows * f / link

    return "gather" if gather < add else "add up"


# %% only the sizes of axes are added exercise="4.1" score=0.6666666667 diagnoses=["sizes-of-axes-added"] near=["last-brackets"]
def kinds(text):
    found = []
    for line in text.splitlines():
        m = re.match(r"\s*(?:ROOT )?%\S+ = (?:\(.*?\)|\S+) ([a-z-]+)\(", line)
        if m:
            op = m[1].removesuffix("-start")
            if op in KINDS:
                found.append(op)
    return found


def bytes_of(type):
    total = 0
    for t, sizes in re.findall(r"([a-z]+[0-9]*)\[([0-9,]*)\]", type):
        total += ELEMENT[t] * math.prod(int(s) for s in sizes.split(",") if s)
    return total


def group_size(line):
    m = re.search(r"replica_groups=\{\{([0-9,]+)\}", line)
    if m:
        return len(m[1].split(","))
    m = re.search(r"replica_groups=\[(\d+),(\d+)\]", line)
    if m:
        return int(m[2])
    m = re.search(r"replica_groups=mesh\[(.*?)\] *\{(.*?)\}", line)
    sizes = dict(p.split("=") for p in m[1].split(","))
    return sum(int(sizes[a.strip()]) for a in m[2].split(","))


# %% a block for one kind exercise="4.2" score=0.5 diagnoses=["block-for-one"] near=["block-for-buffer"]
def sent(kind, n, size):
    ring = (n - 1) * size / n
    return {
        "all-reduce": 2 * ring,
        "reduce-scatter": (n - 1) * size,
        "collective-permute": size,
    }.get(kind, ring)


mib = {
    "gather along x": 48,
    "gather along x and y": 112,
    "add up along x": 96,
    "exchange along x": 24,
}


# %% a whole buffer for one kind exercise="4.2" score=0.5 diagnoses=["whole-buffer-for-one"] near=["whole-buffer"]
def sent(kind, n, size):
    ring = (n - 1) * size / n
    return {"all-reduce": 2 * ring, "all-to-all": size, "collective-permute": size}.get(kind, ring)


mib = {
    "gather along x": 48,
    "gather along x and y": 112,
    "add up along x": 96,
    "exchange along x": 24,
}


# %% the whole buffer twice exercise="4.2" score=0.5 diagnoses=["whole-buffer-twice"] near=["whole-buffer-for-one", "block-for-one", "one-axis-alone"]
def sent(kind, n, size):
    ring = (n - 1) * size / n
    return {"all-reduce": 2 * size, "collective-permute": size}.get(kind, ring)


mib = {
    "gather along x": 48,
    "gather along x and y": 112,
    "add up along x": 96,
    "exchange along x": 24,
}


# %% the whole buffer twice, and MB with one decimal exercise="4.2" score=0.6666666667 diagnoses=["whole-buffer-twice", "megabytes"] near=["buffer", "twice", "one-axis-alone"]
def sent(kind, n, size):
    ring = (n - 1) * size / n
    return {"all-reduce": 2 * ring, "collective-permute": size}.get(kind, ring)


mib = {
    "gather along x": 48,
    "gather along x and y": 112,
    "add up along x": 128,
    "exchange along x": 25.2,
}


# %% along y alone exercise="4.2" score=0.6666666667 diagnoses=["one-axis-alone", "eight-in-a-group"] near=["four-in-a-group", "whole-buffer-twice"]
def sent(kind, n, size):
    ring = (n - 1) * size / n
    return {"all-reduce": 2 * ring, "collective-permute": size}.get(kind, ring)


mib = {
    "gather along x": 48,
    "gather along x and y": 64,
    "add up along x": 96,
    "exchange along x": 28,
}


# %% one step of the ring, and a permutation once exercise="4.2" score=0.5 diagnoses=["one-piece"]
def sent(kind, n, size):
    if kind == "collective-permute":
        return size
    rounds = 2 if kind == "all-reduce" else 1
    return rounds * size / n


mib = {
    "gather along x": 48,
    "gather along x and y": 112,
    "add up along x": 96,
    "exchange along x": 24,
}


# %% one of n - 1 pieces exercise="4.2" score=0.5 diagnoses=["n-minus-one-pieces"]
def sent(kind, n, size):
    if kind == "collective-permute":
        return size
    rounds = 2 if kind == "all-reduce" else 1
    return rounds * size / (n - 1)


mib = {
    "gather along x": 48,
    "gather along x and y": 112,
    "add up along x": 96,
    "exchange along x": 24,
}


# %% a permutation sends one piece exercise="4.2" score=0.5 diagnoses=["permuted-piece"]
def sent(kind, n, size):
    if kind == "collective-permute":
        return size / n
    rounds = 2 if kind == "all-reduce" else 1
    return rounds * (n - 1) / n * size


mib = {
    "gather along x": 48,
    "gather along x and y": 112,
    "add up along x": 96,
    "exchange along x": 24,
}


# %% no communication, no work exercise="4.4" score=0.6666666667 diagnoses=["no-work", "always-an-eighth"] near=["copies-share-nothing"]
share = {
    "rows over x and y, a copy": 0.125,
    "rows over x, a copy": 0.25,
    "a copy, a copy": 0,
    "a copy, columns over y": 0.125,
    "columns over x, rows over x": 0.25,
    "blocks, blocks": 0.125,
    "rows over four devices, a copy": 0.25,
}
on_512 = {
    "rows over y, a copy": 0.125,
    "a copy, columns over y and z": 0.03125,
    "rows over x, columns over y": 0.0078125,
    "rows over x and z, columns over y": 0.001953125,
    "columns over z, rows over z": 0.25,
}


# %% the machine upside down exercise="4.5" score=0.4666666667 diagnoses=["machine-upside-down"] near=["upside-down", "another-machine"]
def rows(n, flops, link):
    # 6 r D F / flops = 2 (n - 1) / n * 2 D F / link
    return 2 * (n - 1) * link / (3 * n * flops)


def width(n, flops, link):
    # 4 r D F / n / flops = 2 (n - 1) / n * 2 r D / link
    return (n - 1) * flops / link


E5, H, N = MACHINES["TPU v5e"], MACHINES["H100 100G Ethernet"], MACHINES["H100 NVLink"]
on_machines = {
    "rows, TPU v5e": rows(8, E5.flops, E5.link),
    "rows, H100 100G Ethernet": rows(8, H.flops, H.link),
    "width, TPU v5e": width(8, E5.flops, E5.link),
    "width, H100 NVLink": width(8, N.flops, N.link),
}


# %% another machine exercise="4.5" score=0.9333333333 diagnoses=["another-machine"] near=["four-devices"]
def rows(n, flops, link):
    # 6 r D F / flops = 2 (n - 1) / n * 2 D F / link
    return 2 * (n - 1) * flops / (3 * n * link)


def width(n, flops, link):
    # 4 r D F / n / flops = 2 (n - 1) / n * 2 r D / link
    return (n - 1) * flops / link


E5, H, N = MACHINES["TPU v5e"], MACHINES["H100 100G Ethernet"], MACHINES["H100 NVLink"]
on_machines = {
    "rows, TPU v5e": rows(8, E5.flops, E5.link),
    "rows, H100 100G Ethernet": rows(8, H.flops, H.link),
    "width, TPU v5e": width(8, E5.flops, E5.link),
    "width, H100 NVLink": width(8, H.flops, H.link),
}


# %% the width for a backward pass, too exercise="4.5" score=0.46666666666666673 diagnoses=["backward-too"]
def rows(n, flops, link):
    return 2 * (n - 1) / n * 2 / link * flops / 6


def width(n, flops, link):
    return 2 * (n - 1) / n * 2 / link * flops / 4 * n / 3


on_machines = {}
for cell in ("rows, TPU v5e", "rows, H100 100G Ethernet", "width, TPU v5e", "width, H100 NVLink"):
    what, machine = cell.split(", ")
    formula = rows if what == "rows" else width
    on_machines[cell] = formula(8, MACHINES[machine].flops, MACHINES[machine].link)


# %% the mean alone on sixteen, without the maximum exercise="4.3" score=0.8333333333 diagnoses=["inner-loop-only"] near=["fraction-lost"]
moved = {
    "centred": 28,
    "written_out": 28,
    "nested": 60,
    "same_weights": 1024,
    "other_weights": 5120,
    "until_small": "unknown",
}
on_sixteen = {"centred": 52.5, "nested": 90, "same_weights": 960, "other_weights": 4800}


# %% z taken for the axis of sixteen exercise="4.4" score=0.5 diagnoses=["axes-mixed-up"] near=["quarter-counted-twice"]
share = {name: communication(product, *args).flops / whole for name, args in cases.items()}
on_512 = {
    "rows over y, a copy": 1 / 4,
    "a copy, columns over y and z": 1 / 64,
    "rows over x, columns over y": 1 / 32,
    "rows over x and z, columns over y": 1 / 512,
    "columns over z, rows over z": 1 / 16,
}


# %% columns over x exercise="4.4" score=0.8333333333333333 diagnoses=["other-axis"]
share = {
    "rows over x and y, a copy": 1 / 8,
    "rows over x, a copy": 1 / 4,
    "a copy, a copy": 1,
    "a copy, columns over y": 1 / 4,
    "columns over x, rows over x": 1 / 4,
    "blocks, blocks": 1 / 8,
    "rows over four devices, a copy": 1 / 4,
}
on_512 = {
    "rows over y, a copy": 1 / 8,
    "a copy, columns over y and z": 1 / 32,
    "rows over x, columns over y": 1 / 128,
    "rows over x and z, columns over y": 1 / 512,
    "columns over z, rows over z": 1 / 4,
}


# %% one cell as on eight devices, by another model exercise="4.7" score=0.5833333333 diagnoses=["unanswered", "activations-travel"] near=["as-on-8-by-32", "as-on-eight"]
on_256 = {
    "fast links, 1,024 rows": "tensor",
    "fast links, 12,288 rows": "tensor",
    "fast links, 524,288 rows": "both",
    "slow links, 1,024 rows": "copies",
    "slow links, 12,288 rows": "both",
    "slow links, 524,288 rows": "both",
}


# %% the mesh turned exercise="4.7" score=0.8333333333333334 diagnoses=["as-on-8-by-32"]
fastest = {}
for machine in MACHINES:
    for count in (1_024, 65_536, 524_288):
        fastest[f"{machine}, {count:,} rows"] = min(
            layouts, key=lambda name: seconds(name, count, machine)
        )


def added_up(devices, size):  # by an all-reduce
    return 2 * (devices - 1) / devices * size


on_256 = {}
for l in ("fast links", "slow links"):
    for count in (1024, 12288, 524288):
        flops, link = (200e12, 100e9) if l == "fast links" else (800e12, 10e9)
        work, weights, batch = 5 * 2 * count * 4096 * 16384, 2 * 2 * 4096 * 16384, 2 * count * 4096
        sends = {
            "copies": 0,
            "data": added_up(256, weights),
            "tensor": added_up(256, batch),
            "both": added_up(8, weights / 32) + added_up(32, batch / 8),
        }
        times = {
            name: work / (1 if name == "copies" else 256) / flops + sends[name] / link
            for name in sends
        }
        on_256[f"{l}, {count:,} rows"] = min(times, key=times.get)


# %% names or opcodes, whichever is a collective exercise="4.1" score=0 diagnoses=["names-too", "unanswered"] near=["by-name", "substring"]
def kinds(text):
    found = []
    for line in text.splitlines():
        if " = " not in line:
            continue
        name = line.split("%")[1].split(".")[0]
        opcode = line.split(" = ")[1].split("(%")[0].split()[-1]
        for word in (name, opcode):
            word = word.removesuffix("-start")
            if word in KINDS:
                found.append(word)
                break
    return found


# %% names and opcodes, both exercise="4.1" score=0 diagnoses=["names-too", "unanswered"] near=["after-percent", "by-name-once"]
def kinds(text):
    found = []
    for line in text.splitlines():
        if " = " not in line or "-done" in line:
            continue
        for kind in KINDS:
            found += [kind] * len(re.findall(rf"^ *(?:ROOT )?%{kind}(?:-start)?\.", line))
            found += [kind] * len(re.findall(rf"= (?:\(.*?\)|\S+) {kind}(?:-start)?\(", line))
    return found


# %% buffers of half the size exercise="4.2" score=0.6666666667 diagnoses=["half", "once-or-half"] near=["reduced-once"]
def sent(kind, n, size):
    return {"all-reduce": 2 * (n - 1) / n, "collective-permute": 1}.get(kind, (n - 1) / n) * size


mib = {
    "gather along x": 24,
    "gather along x and y": 112,
    "add up along x": 48,
    "exchange along x": 24,
}


# %% how many axes a group lies along exercise="4.1" score=0 diagnoses=["unanswered", "number-of-axes"] near=["one-digit"]
def group_size(line):
    groups = line.split("replica_groups=")[1]
    if groups.startswith("{{"):
        return len(groups[2 : groups.index("}")].split(","))
    if groups.startswith("["):
        return int(groups[1 : groups.index("]")].split(",")[1])
    sizes = dict(re.findall(r"'(\w+)'=(\d+)", groups))
    axes = re.findall(r"'(\w+)'", re.search(r"\] ?\{(.*?)\}", groups)[1])
    return len(axes)


# %% the first digit of a size exercise="4.1" score=0 diagnoses=["unanswered", "one-digit"] near=["order-of-devices"]
def group_size(line):
    groups = line.split("replica_groups=")[1]
    if groups.startswith("{{"):
        return len(groups[2 : groups.index("}")].split(","))
    if groups.startswith("["):
        return int(groups[3])
    sizes = dict(re.findall(r"'(\w+)'=(\d+)", groups))
    axes = re.findall(r"'(\w+)'", re.search(r"\] ?\{(.*?)\}", groups)[1])
    return math.prod(int(sizes[a]) for a in axes)


# %% the first number after the arrow exercise="4.1" score=0 diagnoses=["unanswered", "order-of-devices"] near=["one-size"]
def group_size(line):
    groups = line.split("replica_groups=")[1]
    if groups.startswith("{{"):
        return len(groups[2 : groups.index("}")].split(","))
    if groups.startswith("["):
        return int(re.search(r"<=\[(\d+)", groups)[1])
    sizes = dict(re.findall(r"'(\w+)'=(\d+)", groups))
    axes = re.findall(r"'(\w+)'", re.search(r"\] ?\{(.*?)\}", groups)[1])
    return math.prod(int(sizes[a]) for a in axes)


# %% the first size of each array exercise="4.1" score=0 diagnoses=["unanswered", "one-size"] near=["number-of-axes"]
def bytes_of(type):
    total = 0
    for name, sizes in re.findall(r"(\w+)\[([\d,]*)\]", type):
        total += ELEMENT[name] * math.prod(int(s) for s in sizes.split(",")[:1] if s)
    return total


# %% n pieces travel, and the all-reduce is right exercise="4.2" score=0 diagnoses=["whole-buffer", "unanswered"] near=["twice-for-one"]
def sent(kind, n, size):
    if kind == "collective-permute":
        return size
    if kind == "all-reduce":
        return 2 * (n - 1) * size / n
    return size


# %% an all-to-all goes round twice exercise="4.2" score=0 diagnoses=["twice-for-one", "unanswered"] near=["two-gathers"]
def sent(kind, n, size):
    if kind == "collective-permute":
        return size
    if kind in ("all-reduce", "all-to-all"):
        return 2 * (n - 1) * size / n
    return (n - 1) * size / n


# %% the sum of two gathers exercise="4.2" score=0.3333333333333333 diagnoses=["unanswered", "two-gathers"] near=["one-piece"]
mib = {
    "gather along x": 48,
    "gather along x and y": 160,
    "add up along x": 96,
    "exchange along x": 24,
}


# %% one step, and the all-reduce is right exercise="4.2" score=0 diagnoses=["one-piece", "unanswered"] near=["whole-buffer"]
def sent(kind, n, size):
    if kind == "collective-permute":
        return size
    if kind == "all-reduce":
        return 2 * (n - 1) * size / n
    return size / n


# %% the rows of a machine for its width exercise="4.5" score=0.9333333333333333 diagnoses=["rows-for-width"]
def rows(n, flops, link):
    return 2 / 3 * (n - 1) / n * flops / link


def width(n, flops, link):
    return (n - 1) * flops / link


on_machines = {
    "rows, TPU v5e": rows(8, MACHINES["TPU v5e"].flops, MACHINES["TPU v5e"].link),
    "rows, H100 100G Ethernet": rows(
        8, MACHINES["H100 100G Ethernet"].flops, MACHINES["H100 100G Ethernet"].link
    ),
    "width, TPU v5e": rows(8, MACHINES["TPU v5e"].flops, MACHINES["TPU v5e"].link),
    "width, H100 NVLink": width(8, MACHINES["H100 NVLink"].flops, MACHINES["H100 NVLink"].link),
}


# %% the width of a machine for its rows exercise="4.5" score=0.9333333333333333 diagnoses=["width-for-rows"]
def rows(n, flops, link):
    return 2 / 3 * (n - 1) / n * flops / link


def width(n, flops, link):
    return (n - 1) * flops / link


on_machines = {
    "rows, TPU v5e": width(8, MACHINES["TPU v5e"].flops, MACHINES["TPU v5e"].link),
    "rows, H100 100G Ethernet": rows(
        8, MACHINES["H100 100G Ethernet"].flops, MACHINES["H100 100G Ethernet"].link
    ),
    "width, TPU v5e": width(8, MACHINES["TPU v5e"].flops, MACHINES["TPU v5e"].link),
    "width, H100 NVLink": width(8, MACHINES["H100 NVLink"].flops, MACHINES["H100 NVLink"].link),
}


# %% a piece of the result travels exercise="4.6" score=0 diagnoses=["unanswered", "piece-of-the-result"]
def faster(rows, d, f, n, flops, link):
    work = 2 * rows * d * f / flops
    gather = work + (n - 1) / n * 2 * d * f / link
    add_up = work / n + 2 * (n - 1) / n * 2 * rows * f / n / link
    return "gather" if gather < add_up else "add up"


# %% a piece for each link of the ring exercise="4.2" score=0 diagnoses=["once-per-hop", "unanswered"] near=["twice-for-one", "whole-buffer-for-one", "block-for-one"]
def sent(kind, n, size):
    if kind == "collective-permute":
        return size
    if kind == "all-to-all":
        return sum(hop * size / n for hop in range(1, n))
    return (2 if kind == "all-reduce" else 1) * (n - 1) / n * size


# %% a piece for each link of the shorter way exercise="4.2" score=0 diagnoses=["once-per-hop", "unanswered"] near=["whole-buffer-for-one", "one-piece"]
def sent(kind, n, size):
    if kind == "collective-permute":
        return size
    if kind == "all-to-all":
        return sum(min(hop, n - hop) * size / n for hop in range(1, n))
    return (2 if kind == "all-reduce" else 1) * (n - 1) / n * size


# %% twice for an all-to-all exercise="4.2" score=0 diagnoses=["twice-for-one", "unanswered"] near=["once-per-hop"]
def sent(kind, n, size):
    if kind == "collective-permute":
        return size
    if kind == "all-to-all":
        return 2 * (n - 1) / n * size
    return (2 if kind == "all-reduce" else 1) * (n - 1) / n * size


# %% bytes exchanged exercise="4.6" score=0.5 diagnoses=["bytes-exchanged"] near=["work-exchanged", "exchanged", "passes-exchanged"]
def same_bytes(d, f, n):
    return d / 2


def faster(rows, d, f, n, flops, link):
    once_round = (n - 1) / n * 2 / link
    gather = 2 * rows * d * f / flops + 2 * once_round * rows * f
    add_up = 2 * rows * d * f / n / flops + once_round * d * f
    return "gather" if gather < add_up else "add up"


# %% the weights go round twice exercise="4.6" score=0 diagnoses=["upside-down", "passes-exchanged"] near=["bytes-exchanged", "reduced-once"]
def same_bytes(d, f, n):
    return 2 * d


def faster(rows, d, f, n, flops, link):
    once_round = (n - 1) / n * 2 / link
    gather = 2 * rows * d * f / flops + 2 * once_round * d * f
    add_up = 2 * rows * d * f / n / flops + once_round * rows * f
    return "gather" if gather < add_up else "add up"


# %% buffers compared exercise="4.6" score=0.5 diagnoses=["buffers-for-bytes"] near=["bytes-exchanged", "reduced-once", "n-left-out", "work-times-n"]
def same_bytes(d, f, n):
    return d / 2


def faster(rows, d, f, n, flops, link):
    matmul = 2 * rows * d * f / flops
    gather = matmul + 2 * d * f / link
    add_up = matmul / n + 2 * rows * f / link
    return "gather" if gather < add_up else "add up"


# %% the work of adding up times n exercise="4.6" score=0.5 diagnoses=["work-times-n"] near=["work-exchanged", "buffers-for-bytes", "bytes-alone"]
def same_bytes(d, f, n):
    return d / 2


def faster(rows, d, f, n, flops, link):
    matmul = 2 * rows * d * f / flops
    gather = matmul + 2 * d * f * (n - 1) / n / link
    add_up = matmul * n + 2 * 2 * rows * f * (n - 1) / n / link
    return "gather" if gather < add_up else "add up"


# %% quoted calls and both halves, arrays multiplied, axes added exercise="4.1" score=0 diagnoses=["in-quotes-both-halves", "arrays-multiplied", "all-axes-added"] near=["in-quotes-too", "in-quotes-no-halves", "whole-mesh-and-number-of-groups", "second-number", "sizes-of-axes-added"]
def kinds(text):
    pattern = (
        r" (all-gather|all-reduce|reduce-scatter|all-to-all|collective-permute)(?:-start|-done)?\("
    )
    return re.findall(pattern, text)


def bytes_of(type):
    return math.prod(
        ELEMENT[t] * math.prod(int(n) for n in dims.split(",") if n)
        for t, dims in re.findall(r"(\w+)\[([\d,]*)\]", type)
    )


def group_size(line):
    if m := re.search(r"replica_groups=\{\{([\d,]+)\}", line):
        return len(m[1].split(","))
    if m := re.search(r"replica_groups=\[\d+,(\d+)\]", line):
        return int(m[1])
    m = re.search(r"replica_groups=mesh\[(.*?)\] \{(.*?)\}", line)
    return sum(int(n) for n in re.findall(r"=(\d+)", m[1]))


# %% quoted calls by kind, the second number exercise="4.1" score=0 diagnoses=["in-quotes-too", "four-bytes", "second-number"] near=["in-quotes-both-halves", "by-kind", "arrays-multiplied", "all-axes-added", "whole-mesh-and-number-of-groups"]
def kinds(text):
    return [kind for kind in KINDS for _ in re.findall(rf" {kind}(?:-start)?\(", text)]


def bytes_of(type):
    return 4 * sum(
        math.prod(int(n) for n in dims.split(",") if n)
        for dims in re.findall(r"\[([\d,]*)\]", type)
    )


def group_size(line):
    groups = re.search(r"replica_groups=(.*)", line)[1]
    return int(re.findall(r"\d+", groups)[1])


# %% numbers of groups, and the whole mesh exercise="4.1" score=0.3333333333 diagnoses=["in-quotes-too", "whole-mesh-and-number-of-groups"] near=["in-quotes-both-halves", "all-axes-added", "second-number", "whole-mesh", "number-of-groups-in-some-forms"]
def kinds(text):
    return re.findall(
        r" (all-gather|all-reduce|reduce-scatter|all-to-all|collective-permute)(?:-start)?\(", text
    )


def bytes_of(type):
    return sum(
        ELEMENT[t] * math.prod(int(n) for n in dims.split(",") if n)
        for t, dims in re.findall(r"(\w+)\[([\d,]*)\]", type)
    )


def group_size(line):
    if m := re.search(r"replica_groups=\{(\{.*?\})\}", line):
        return m[1].count("{")
    if m := re.search(r"replica_groups=\[(\d+),\d+\]", line):
        return int(m[1])
    m = re.search(r"replica_groups=mesh\[(.*?)\] \{(.*?)\}", line)
    return math.prod(int(n) for n in re.findall(r"=(\d+)", m[1]))


# %% groups in full counted, and the whole mesh exercise="4.1" score=0 diagnoses=["asynchronous-missed", "arrays-multiplied", "whole-mesh-and-number-of-groups"] near=["in-quotes-both-halves", "sizes-added", "second-number"]
def kinds(text):
    pattern = r"^\s*(?:ROOT )?%\S+ = (?:\([^)]*\)|\S+) (all-gather|all-reduce|reduce-scatter|all-to-all|collective-permute)\("
    return re.findall(pattern, text, re.M)


def bytes_of(type):
    return math.prod(
        ELEMENT[t] * math.prod(int(n) for n in dims.split(",") if n)
        for t, dims in re.findall(r"(\w+)\[([\d,]*)\]", type)
    )


def group_size(line):
    groups = line.split("replica_groups=")[1]
    if groups.startswith("{{"):
        return len(re.findall(r"\{[\d,]+\}", groups))
    if groups.startswith("["):
        return int(groups[1 : groups.index("]")].split(",")[1])
    m = re.match(r"mesh\[(.*?)\] \{(.*?)\}", groups)
    sizes = dict(re.findall(r"'(\w+)'=(\d+)", m[1]))
    return math.prod(int(n) for n in sizes.values())


# %% an all-to-all and a permutation exchanged exercise="4.2" score=0 diagnoses=["exchange-and-permutation", "unanswered"] near=["permuted-in-a-ring", "whole-buffer", "same-for-every-n"]
def sent(kind, n, size):
    if kind == "all-reduce":
        return 2 * (n - 1) * size / n
    if kind == "all-to-all":
        return size
    return (n - 1) * size / n


# %% n pieces travel, but for an all-to-all exercise="4.2" score=0 diagnoses=["whole-buffer", "unanswered"] near=["exchange-and-permutation", "same-for-every-n"]
def sent(kind, n, size):
    steps = {
        "all-gather": n,
        "reduce-scatter": n,
        "all-reduce": 2 * n,
        "all-to-all": n - 1,
        "collective-permute": n,
    }
    return steps[kind] * size / n


# %% always among four exercise="4.2" score=0 diagnoses=["same-for-every-n", "unanswered"] near=["exchange-and-permutation", "whole-buffer"]
def sent(kind, n, size):
    return {
        "all-gather": 0.75,
        "reduce-scatter": 0.75,
        "all-to-all": 0.75,
        "all-reduce": 1.5,
        "collective-permute": 1,
    }[kind] * size


# %% elements for bytes exercise="4.3" score=0 diagnoses=["counted"] near=["body-once", "its-block", "half-of-it"]
moved = {
    "centred": 7,
    "written_out": 7,
    "nested": 15,
    "same_weights": 256,
    "other_weights": 1280,
    "until_small": "unknown",
}
on_sixteen = {"centred": 13.125, "nested": 28.125, "same_weights": 240, "other_weights": 1200}


# %% how often collectives run exercise="4.3" score=0 diagnoses=["counted"] near=["body-once", "sent", "moved-not-sent"]
moved = {
    "centred": 7,
    "written_out": 7,
    "nested": 15,
    "same_weights": 1,
    "other_weights": 5,
    "until_small": "unknown",
}
on_sixteen = {"centred": 7, "nested": 15, "same_weights": 1, "other_weights": 5}


# %% all of v, on sixteen as well exercise="4.3" score=0.4166666667 diagnoses=["all-of-v"] near=["counted", "block-of-v"]
moved = {
    "centred": 3584,
    "written_out": 3584,
    "nested": 7680,
    "same_weights": 1024,
    "other_weights": 5120,
    "until_small": "unknown",
}
on_sixteen = {"centred": 6720, "nested": 14400, "same_weights": 960, "other_weights": 4800}


# %% x and y mixed up on both meshes exercise="4.4" score=0.4722222222 diagnoses=["other-axis", "axes-mixed-up"] near=["sizes-of-the-grid", "axes-added"]
share = {
    "rows over x and y, a copy": 1 / 8,
    "rows over x, a copy": 1 / 2,
    "a copy, a copy": 1,
    "a copy, columns over y": 1 / 4,
    "columns over x, rows over x": 1 / 2,
    "blocks, blocks": 1 / 8,
    "rows over four devices, a copy": 1 / 4,
}
on_512 = {
    "rows over y, a copy": 1 / 16,
    "a copy, columns over y and z": 1 / 64,
    "rows over x, columns over y": 1 / 128,
    "rows over x and z, columns over y": 1 / 512,
    "columns over z, rows over z": 1 / 4,
}


# %% axes added on both meshes exercise="4.4" score=0.4583333333 diagnoses=["axes-added"] near=["one-dimension-alone", "sizes-of-the-grid", "all-blocks"]
share = {
    "rows over x and y, a copy": 1 / 6,
    "rows over x, a copy": 1 / 4,
    "a copy, a copy": 1,
    "a copy, columns over y": 1 / 2,
    "columns over x, rows over x": 1 / 4,
    "blocks, blocks": 1 / 6,
    "rows over four devices, a copy": 1 / 4,
}
on_512 = {
    "rows over y, a copy": 1 / 8,
    "a copy, columns over y and z": 1 / 12,
    "rows over x, columns over y": 1 / 24,
    "rows over x and z, columns over y": 1 / 160,
    "columns over z, rows over z": 1 / 4,
}


# %% the sizes of the small mesh exercise="4.4" score=0.5 diagnoses=["sizes-of-the-grid", "quarter-counted-twice"] near=["axes-mixed-up", "one-axis-left-out"]
share = {
    "rows over x and y, a copy": 1 / 8,
    "rows over x, a copy": 1 / 4,
    "a copy, a copy": 1,
    "a copy, columns over y": 1 / 2,
    "columns over x, rows over x": 1 / 4,
    "blocks, blocks": 1 / 8,
    "rows over four devices, a copy": 1 / 4,
}
on_512 = {
    "rows over y, a copy": 1 / 2,
    "a copy, columns over y and z": 1 / 8,
    "rows over x, columns over y": 1 / 8,
    "rows over x and z, columns over y": 1 / 32,
    "columns over z, rows over z": 1 / 16,
}


# %% four bytes, in the table as well exercise="4.5" score=0 diagnoses=["twice-as-much"] near=["same-for-every-n", "power-of-ten"]
def rows(n, flops, link):
    return 4 / 3 * (n - 1) / n * flops / link


def width(n, flops, link):
    return 2 * (n - 1) * flops / link


def at(f, name):
    return f(8, MACHINES[name].flops, MACHINES[name].link)


on_machines = {
    "rows, TPU v5e": at(rows, "TPU v5e"),
    "rows, H100 100G Ethernet": at(rows, "H100 100G Ethernet"),
    "width, TPU v5e": at(width, "TPU v5e"),
    "width, H100 NVLink": at(width, "H100 NVLink"),
}


# %% the formulas for four devices exercise="4.5" score=0 diagnoses=["same-for-every-n", "four-devices"] near=["n-left-out", "on_machines: twice-as-much", "width-of-one-of-four"]
def rows(n, flops, link):
    return flops / link / 2


def width(n, flops, link):
    return 3 * flops / link


def at(f, name):
    return f(8, MACHINES[name].flops, MACHINES[name].link)


on_machines = {
    "rows, TPU v5e": at(rows, "TPU v5e"),
    "rows, H100 100G Ethernet": at(rows, "H100 100G Ethernet"),
    "width, TPU v5e": at(width, "TPU v5e"),
    "width, H100 NVLink": at(width, "H100 NVLink"),
}


# %% one of four devices in the table exercise="4.5" score=0.4 diagnoses=["width-of-a-device", "four-devices", "width-of-one-of-four"] near=["same-for-every-n", "power-of-ten"]
def rows(n, flops, link):
    return 2 / 3 * (n - 1) / n * flops / link


def width(n, flops, link):
    return (n - 1) / n * flops / link


def at(f, name):
    return f(4, MACHINES[name].flops, MACHINES[name].link)


on_machines = {
    "rows, TPU v5e": at(rows, "TPU v5e"),
    "rows, H100 100G Ethernet": at(rows, "H100 100G Ethernet"),
    "width, TPU v5e": at(width, "TPU v5e"),
    "width, H100 NVLink": at(width, "H100 NVLink"),
}


# %% a digit lost exercise="4.5" score=0.5333333333 diagnoses=["upside-down", "power-of-ten"] near=["flops-over-link", "too-few-digits", "whole-buffers", "machine-upside-down", "width-of-one-of-four", "on_machines: twice-as-much"]
def rows(n, flops, link):
    return 3 / 2 * n / (n - 1) * link / flops


def width(n, flops, link):
    return (n - 1) * flops / link


on_machines = {
    "rows, TPU v5e": 1149,
    "rows, H100 100G Ethernet": 46200,
    "width, TPU v5e": 13790,
    "width, H100 NVLink": 1538,
}


# %% halves left out on sixteen devices exercise="4.3" score=0.1666666667 diagnoses=["unanswered", "half-left-out"] near=["fraction-lost", "passes"]
on_sixteen = {
    "centred": 52,
    "nested": 112,
    "same_weights": 960,
    "other_weights": 4800,
}


# %% all of the weights in each step of a ring exercise="4.6" score=0 diagnoses=["unanswered", "all-in-each-step"] near=["block-of-weights", "n-left-out"]
def faster(rows, d, f, n, flops, link):
    gather = 2 * rows * d * f / flops + (n - 1) * 2 * d * f / link
    add_up = 2 * rows * d * f / n / flops + 2 * (n - 1) / n * 2 * rows * f / link
    return "gather" if gather < add_up else "add up"


# %% devices counted by their digits exercise="4.1" score=0.6666666667 diagnoses=["other-result"]
def kinds(text):
    found = []
    for line in text.splitlines():
        line = line.strip().removeprefix("ROOT ")
        if " = " not in line:
            continue
        rest = line.split(" = ", 1)[1]
        rest = rest.split(", metadata=")[0]
        match = re.search(r"(?:^|[)}\] ])\s*(" + "|".join(KINDS) + r")(?:-start)?\(", rest)
        if match:
            found.append(match[1])
    return found


def bytes_of(type):
    total = 0
    for name, sizes in re.findall(r"(\w+)\[([\d,]*)\]", type):
        total += ELEMENT[name] * math.prod(int(s) for s in sizes.split(",") if s)
    return total


def group_size(line):
    if match := re.search(r"replica_groups=\{\{([\d,]+)\}", line):
        return len(re.findall(r"\d", match[1]))
    if match := re.search(r"replica_groups=\[(\d+),(\d+)\]<=", line):
        return int(match[2])
    match = re.search(r"replica_groups=mesh\[([^\]]*)\]\s*\{([^}]*)\}", line)
    sizes = {k: int(v) for k, v in re.findall(r"'(\w+)'=(\d+)", match[1])}
    return math.prod(sizes[a] for a in re.findall(r"'(\w+)'", match[2]))


# %% as many devices as the largest number says exercise="4.1" score=0.6666666667 diagnoses=["other-result"]
def kinds(text):
    found = []
    for line in text.splitlines():
        line = line.strip().removeprefix("ROOT ")
        if " = " not in line:
            continue
        rest = line.split(" = ", 1)[1]
        rest = rest.split(", metadata=")[0]
        match = re.search(r"(?:^|[)}\] ])\s*(" + "|".join(KINDS) + r")(?:-start)?\(", rest)
        if match:
            found.append(match[1])
    return found


def bytes_of(type):
    total = 0
    for name, sizes in re.findall(r"(\w+)\[([\d,]*)\]", type):
        total += ELEMENT[name] * math.prod(int(s) for s in sizes.split(",") if s)
    return total


def group_size(line):
    if match := re.search(r"replica_groups=\{\{([\d,]+)\}", line):
        return max(map(int, match[1].split(","))) + 1
    if match := re.search(r"replica_groups=\[(\d+),(\d+)\]<=", line):
        return int(match[2])
    match = re.search(r"replica_groups=mesh\[([^\]]*)\]\s*\{([^}]*)\}", line)
    sizes = {k: int(v) for k, v in re.findall(r"'(\w+)'=(\d+)", match[1])}
    return math.prod(sizes[a] for a in re.findall(r"'(\w+)'", match[2]))


# %% the longer of the two times, and of equal ones tensor exercise="4.7" score=0.1851851852 diagnoses=["at-the-same-time", "unanswered"] near=["in-one-ring", "axes-share"]
for cell in fastest:
    machine, count = cell.removesuffix(" rows").rsplit(", ", 1)
    report = {}
    for name in layouts:
        asked = step_report(layouts[name], int(count.replace(",", "")), machine)
        report[name] = float(f"{max(asked.compute_seconds, asked.communication_seconds):.3g}")
    fastest[cell] = min(report, key=lambda name: (report[name], name != "tensor"))


# %% one piece for the exchange exercise="4.2" score=0.8333333333333333 diagnoses=["one-piece-exchanged"]
def sent(kind, n, size):
    share = (n - 1) / n * size
    return {"all-reduce": 2 * share, "collective-permute": size}.get(kind, share)


mib = {
    "gather along x": 48,
    "gather along x and y": 112,
    "add up along x": 96,
    "exchange along x": 8,
}


# %% an all-to-all of the whole buffer exercise="4.2" score=0.5 diagnoses=["whole-buffer-for-one"]
def sent(kind, n, size):
    share = (n - 1) / n * size
    return {"all-to-all": size, "all-reduce": 2 * share, "collective-permute": size}.get(
        kind, share
    )


mib = {
    "gather along x": 48,
    "gather along x and y": 112,
    "add up along x": 96,
    "exchange along x": 24,
}


# %% an all-to-all of one piece exercise="4.2" score=0.5 diagnoses=["one-piece-exchanged"]
def sent(kind, n, size):
    share = (n - 1) / n * size
    return {"all-to-all": size / n, "all-reduce": 2 * share, "collective-permute": size}.get(
        kind, share
    )


mib = {
    "gather along x": 48,
    "gather along x and y": 112,
    "add up along x": 96,
    "exchange along x": 24,
}


# %% the maxima alone exercise="4.3" score=0.875 diagnoses=["maximum-alone"]
moved = {
    "centred": 28,
    "written_out": 28,
    "nested": 12,
    "same_weights": 1024,
    "other_weights": 5120,
    "until_small": "unknown",
}
on_sixteen = {"centred": 52.5, "nested": 112.5, "same_weights": 960, "other_weights": 4800}


# %% nothing for what is moved out exercise="4.3" score=0.875 diagnoses=["not-at-all"]
moved = {
    "centred": 28,
    "written_out": 28,
    "nested": 60,
    "same_weights": 0,
    "other_weights": 5120,
    "until_small": "unknown",
}
on_sixteen = {"centred": 52.5, "nested": 112.5, "same_weights": 960, "other_weights": 4800}


# %% rows gathered, too exercise="4.3" score=0.875 diagnoses=["gathers-a"]
moved = {
    "centred": 28,
    "written_out": 28,
    "nested": 60,
    "same_weights": 1024,
    "other_weights": 10240,
    "until_small": "unknown",
}
on_sixteen = {"centred": 52.5, "nested": 112.5, "same_weights": 960, "other_weights": 4800}


# %% a block of the weights on sixteen exercise="4.3" score=0.8333333333333333 diagnoses=["its-block"]
moved = {
    "centred": 28,
    "written_out": 28,
    "nested": 60,
    "same_weights": 1024,
    "other_weights": 5120,
    "until_small": "unknown",
}
on_sixteen = {"centred": 52.5, "nested": 112.5, "same_weights": 64, "other_weights": 4800}


# %% a layout for its name exercise="4.7" score=0.9629629629629629 diagnoses=["other-form"]
fastest = {
    "TPU v5e, 1,024 rows": "tensor",
    "TPU v5p, 1,024 rows": "tensor",
    "H100 NVLink, 1,024 rows": "tensor",
    "H100 100G Ethernet, 1,024 rows": "copies",
    "TPU v5e, 65,536 rows": "data",
    "TPU v5p, 65,536 rows": "data",
    "H100 NVLink, 65,536 rows": "both",
    "H100 100G Ethernet, 65,536 rows": "both",
    "TPU v5e, 524,288 rows": "data",
    "TPU v5p, 524,288 rows": "data",
    "H100 NVLink, 524,288 rows": "data",
    "H100 100G Ethernet, 524,288 rows": "data",
}
on_256 = {
    "fast links, 1,024 rows": "tensor",
    "fast links, 12,288 rows": "both",
    "fast links, 524,288 rows": "both",
    "slow links, 1,024 rows": "copies",
    "slow links, 12,288 rows": "both",
    "slow links, 524,288 rows": "both",
}
fastest["TPU v5e, 1,024 rows"] = layouts["tensor"]


# %% one of two axes for the rows exercise="4.4" score=0.9166666666666667 diagnoses=["one-axis-left-out"] near=["axes-added"]
share = {
    "rows over x and y, a copy": 1 / 8,
    "rows over x, a copy": 1 / 4,
    "a copy, a copy": 1,
    "a copy, columns over y": 1 / 2,
    "columns over x, rows over x": 1 / 4,
    "blocks, blocks": 1 / 8,
    "rows over four devices, a copy": 1 / 4,
}
on_512 = {
    "rows over y, a copy": 1 / 8,
    "a copy, columns over y and z": 1 / 32,
    "rows over x, columns over y": 1 / 128,
    "rows over x and z, columns over y": 1 / 512,
    "columns over z, rows over z": 1 / 4,
}
share["rows over x and y, a copy"] = 1 / 4


# %% all of the weights are sent in a gather exercise="4.6" score=0.5 diagnoses=["n-left-out-of-gathering"] near=["n-left-out-of-adding-up"]
def same_bytes(d, f, n):
    return d / 2


def faster(rows, d, f, n, flops, link):
    matmul = 2 * rows * d * f / flops
    gather = matmul + 2 * d * f / link
    add_up = matmul / n + 2 * (n - 1) / n * 2 * rows * f / link
    return "gather" if gather < add_up else "add up"


# %% a gather along y exercise="4.2" score=0.8333 diagnoses=["my-block-or-along-y"] near=["my-block"]
def sent(kind, n, size):
    if kind == "collective-permute":
        return size
    share = size * (n - 1) / n
    return 2 * share if kind == "all-reduce" else share


mib = {
    "gather along x": 16,
    "gather along x and y": 112,
    "add up along x": 96,
    "exchange along x": 24,
}


# %% added up along y exercise="4.2" score=0.8333 diagnoses=["buffer-or-along-y"] near=["buffer"]
def sent(kind, n, size):
    if kind == "collective-permute":
        return size
    share = size * (n - 1) / n
    return 2 * share if kind == "all-reduce" else share


mib = {
    "gather along x": 48,
    "gather along x and y": 112,
    "add up along x": 64,
    "exchange along x": 24,
}

# %% iterations of nested loops are added exercise="4.3" score=0.875 diagnoses=["one-loop-forgotten"]
moved = {
    "centred": 28,
    "written_out": 28,
    "nested": 32,
    "same_weights": 1024,
    "other_weights": 5120,
    "until_small": "unknown",
}
on_sixteen = {
    "centred": 52.5,
    "nested": 112.5,
    "same_weights": 960,
    "other_weights": 4800,
}

# %% sixteen devices send twice as much as eight exercise="4.3" score=0.5 diagnoses=["twice-on-eight"] near=["on-eight"]
moved = {
    "centred": 28,
    "written_out": 28,
    "nested": 60,
    "same_weights": 1024,
    "other_weights": 5120,
    "until_small": "unknown",
}
on_sixteen = {
    "centred": 98,
    "nested": 210,
    "same_weights": 1792,
    "other_weights": 8960,
}

# %% copies count as work of all devices exercise="4.4" score=0.8333 diagnoses=["all-devices"] near=["copies-share-nothing"]
share = {
    "rows over x and y, a copy": 1 / 8,
    "rows over x, a copy": 1 / 4,
    "a copy, a copy": 8,
    "a copy, columns over y": 1 / 2,
    "columns over x, rows over x": 1 / 4,
    "blocks, blocks": 1 / 8,
    "rows over four devices, a copy": 1 / 4,
}
on_512 = {
    "rows over y, a copy": 1 / 8,
    "a copy, columns over y and z": 1 / 32,
    "rows over x, columns over y": 1 / 128,
    "rows over x and z, columns over y": 1 / 512,
    "columns over z, rows over z": 1 / 4,
}


# %% twice the whole result in an all-reduce exercise="4.6" score=0.5 diagnoses=["n-left-out-of-adding-up"] near=["n-left-out-of-gathering"]
def same_bytes(d, f, n):
    return d / 2


def faster(rows, d, f, n, flops, link):
    matmul = 2 * rows * d * f / flops
    gather = matmul + (n - 1) / n * 2 * d * f / link
    add_up = matmul / n + 2 * 2 * rows * f / link
    return "gather" if gather < add_up else "add up"


# %% the gather's buffer is the block that a device starts with exercise="4.2" score=0.8333 diagnoses=["my-block"] near=["my-block-or-along-y"]
def sent(kind, n, size):
    if kind == "collective-permute":
        return size
    share = size * (n - 1) / n
    return 2 * share if kind == "all-reduce" else share


mib = {
    "gather along x": 12,
    "gather along x and y": 112,
    "add up along x": 96,
    "exchange along x": 24,
}


# %% a buffer of 32 MiB is added up exercise="4.2" score=0.8333 diagnoses=["once-or-half"] near=["buffer-or-along-y"]
def sent(kind, n, size):
    if kind == "collective-permute":
        return size
    share = size * (n - 1) / n
    return 2 * share if kind == "all-reduce" else share


mib = {
    "gather along x": 48,
    "gather along x and y": 112,
    "add up along x": 48,
    "exchange along x": 24,
}

# %% what each of eight sends, for sixteen exercise="4.3" score=0.5 diagnoses=["on-eight"] near=["twice-on-eight"]
moved = {
    "centred": 28,
    "written_out": 28,
    "nested": 60,
    "same_weights": 1024,
    "other_weights": 5120,
    "until_small": "unknown",
}
on_sixteen = {
    "centred": 49,
    "nested": 105,
    "same_weights": 896,
    "other_weights": 4480,
}

# %% copies share the work exercise="4.4" score=0.8333 diagnoses=["always-an-eighth"] near=["all-devices"]
share = {
    "rows over x and y, a copy": 1 / 8,
    "rows over x, a copy": 1 / 4,
    "a copy, a copy": 1 / 8,
    "a copy, columns over y": 1 / 2,
    "columns over x, rows over x": 1 / 4,
    "blocks, blocks": 1 / 8,
    "rows over four devices, a copy": 1 / 4,
}
on_512 = {
    "rows over y, a copy": 1 / 8,
    "a copy, columns over y and z": 1 / 32,
    "rows over x, columns over y": 1 / 128,
    "rows over x and z, columns over y": 1 / 512,
    "columns over z, rows over z": 1 / 4,
}


# %% one operand alone exercise="4.1" score=0.6667 diagnoses=["tuples-missed"]
def kinds(text):
    return [
        m[1]
        for l in text.splitlines()
        if (m := re.search(r" = .*? (" + "|".join(KINDS) + r")(-start)?\(%[^,)]*\)", l))
    ]


def bytes_of(type):
    total = 0
    for name, sizes in re.findall(r"([a-z0-9]+)\[([0-9,]*)\]", type):
        total += ELEMENT[name] * math.prod(int(s) for s in sizes.split(",") if s)
    return total


def group_size(line):
    text = line.split("replica_groups=")[1]
    if text.startswith("{{"):
        return len(text[2:].split("}")[0].split(","))
    if text.startswith("["):
        return int(text[1:].split("]")[0].split(",")[1])
    mesh, axes = re.match(r"mesh\[(.*?)\] ?\{(.*?)\}", text).groups()
    sizes = dict(pair.split("=") for pair in mesh.split(","))
    return math.prod(int(sizes[a]) for a in axes.split(","))


# %% operands that begin with p exercise="4.1" score=0.6667 diagnoses=["root-missed"]
def kinds(text):
    found = []
    for line in text.splitlines():
        match = re.search(r" = .*? (" + "|".join(KINDS) + r")(-start)?\(%p", line)
        if match:
            found.append(match[1])
    return found


def bytes_of(type):
    total = 0
    for name, sizes in re.findall(r"([a-z0-9]+)\[([0-9,]*)\]", type):
        total += ELEMENT[name] * math.prod(int(s) for s in sizes.split(",") if s)
    return total


def group_size(line):
    text = line.split("replica_groups=")[1]
    if text.startswith("{{"):
        return len(text[2:].split("}")[0].split(","))
    if text.startswith("["):
        return int(text[1:].split("]")[0].split(",")[1])
    mesh, axes = re.match(r"mesh\[(.*?)\] ?\{(.*?)\}", text).groups()
    sizes = dict(pair.split("=") for pair in mesh.split(","))
    return math.prod(int(sizes[a]) for a in axes.split(","))


# %% all of the result in each step of the ring exercise="4.6" score=0.5 diagnoses=["all-of-the-result-in-each-step"] near=["gathered-twice"]
def same_bytes(d, f, n):
    return d / 2


def faster(rows, d, f, n, flops, link):
    matmul = 2 * rows * d * f / flops
    gather = matmul + (n - 1) / n * 2 * d * f / link
    add_up = matmul / n + 2 * (n - 1) * 2 * rows * f / link
    return "gather" if gather < add_up else "add up"


# %% a gather in two passes exercise="4.6" score=0.5 diagnoses=["gathered-twice"] near=["all-of-the-result-in-each-step"]
def same_bytes(d, f, n):
    return d / 2


def faster(rows, d, f, n, flops, link):
    matmul = 2 * rows * d * f / flops
    gather = matmul + 2 * (n - 1) / n * 2 * d * f / link
    add_up = matmul / n + 2 * (n - 1) / n * 2 * rows * f / link
    return "gather" if gather < add_up else "add up"


# %% the number of groups where a T follows exercise="4.1" score=0.6667 diagnoses=["number-of-groups-if-transposed"] near=["last-brackets", "number-of-groups-in-brackets"]
def kinds(text):
    found = re.findall(r" = (?:\([^=]*?\)|\S+) (%s)(?:-start)?\(" % "|".join(KINDS), text)
    return found


def bytes_of(type):
    total = 0
    for name, sizes in re.findall(r"(\w+)\[([\d,]*)\]", type):
        total += ELEMENT[name] * math.prod(int(n) for n in sizes.split(",") if n)
    return total


def group_size(line):
    groups = line.split("replica_groups=")[1]
    if groups.startswith("{{"):
        return groups[2 : groups.index("}")].count(",") + 1
    if groups.startswith("["):
        sizes = groups[1 : groups.index("]")].split(",")
        return int(sizes[0 if "T(1,0)" in groups else 1])
    sizes = dict(re.findall(r"'(\w+)'=(\d+)", groups))
    axes = re.findall(r"'(\w+)'", groups[groups.index("{") : groups.index("}")])
    return math.prod(int(sizes[a]) for a in axes)


# %% the size from the length of the text in braces exercise="4.1" score=0.6667 diagnoses=["other-result"] near=["number-of-groups-if-transposed"]
def kinds(text):
    found = re.findall(r" = (?:\([^=]*?\)|\S+) (%s)(?:-start)?\(" % "|".join(KINDS), text)
    return found


def bytes_of(type):
    total = 0
    for name, sizes in re.findall(r"(\w+)\[([\d,]*)\]", type):
        total += ELEMENT[name] * math.prod(int(n) for n in sizes.split(",") if n)
    return total


def group_size(line):
    groups = line.split("replica_groups=")[1]
    if groups.startswith("{{"):
        return len(groups[2 : groups.index("}")]) // 2 + 1
    if groups.startswith("["):
        return int(groups[1 : groups.index("]")].split(",")[1])
    sizes = dict(re.findall(r"'(\w+)'=(\d+)", groups))
    axes = re.findall(r"'(\w+)'", groups[groups.index("{") : groups.index("}")])
    return math.prod(int(sizes[a]) for a in axes)


# %% a piece for each device that it passes through exercise="4.2" score=0.3333 diagnoses=["once-per-hop", "twice-or-once-per-hop"] near=["twice", "twice-for-one"]
def sent(kind, n, size):
    if kind == "collective-permute":
        return size
    return (
        (n - 1)
        * size
        // n
        * (2 if kind == "all-reduce" else 1)
        * (n // 2 if kind == "all-to-all" else 1)
    )


mib = {
    "gather along x": sent("all-gather", 4, 64),
    "gather along x and y": sent("all-gather", 8, 128),
    "add up along x": sent("all-reduce", 4, 64),
    "exchange along x": sent("all-to-all", 4, 32),
}


# %% the whole matrix is added up exercise="4.2" score=0.8333 diagnoses=["twice"] near=["twice-or-once-per-hop", "once-per-hop"]
def sent(kind, n, size):
    if kind == "collective-permute":
        return size
    return (n - 1) * size // n * (2 if kind == "all-reduce" else 1)


mib = {
    "gather along x": sent("all-gather", 4, 64),
    "gather along x and y": sent("all-gather", 8, 128),
    "add up along x": sent("all-reduce", 4, 128),
    "exchange along x": sent("all-to-all", 4, 32),
}


# %% the fraction of four devices in the width exercise="4.5" score=0.4667 diagnoses=["fraction-of-other-n"] near=["same-for-every-n", "four-devices", "n-left-out"]
def rows(n, flops, link):
    return 2 / 3 * (n - 1) / n * flops / link


def width(n, flops, link):
    return 0.75 * n * flops / link


def of(function, name):
    return function(8, MACHINES[name].flops, MACHINES[name].link)


on_machines = {
    "rows, TPU v5e": of(rows, "TPU v5e"),
    "rows, H100 100G Ethernet": of(rows, "H100 100G Ethernet"),
    "width, TPU v5e": of(width, "TPU v5e"),
    "width, H100 NVLink": of(width, "H100 NVLink"),
}


# %% the fraction of four devices in the rows exercise="4.5" score=0.4667 diagnoses=["same-for-every-n", "four-devices"] near=["fraction-of-other-n"]
def rows(n, flops, link):
    return 2 / 3 * 3 / 4 * flops / link


def width(n, flops, link):
    return (n - 1) * flops / link


def of(function, name):
    return function(8, MACHINES[name].flops, MACHINES[name].link)


on_machines = {
    "rows, TPU v5e": of(rows, "TPU v5e"),
    "rows, H100 100G Ethernet": of(rows, "H100 100G Ethernet"),
    "width, TPU v5e": of(width, "TPU v5e"),
    "width, H100 NVLink": of(width, "H100 NVLink"),
}

# %% added up in the backward pass, too exercise="4.7" score=0.9167 diagnoses=["all-of-the-weights"] near=["weights-travel", "as-on-8-by-32"]
fastest = {
    f"{machine}, {r:,} rows": min(layouts, key=lambda name: seconds(name, r, machine))
    for r in (1_024, 65_536, 524_288)
    for machine in MACHINES
}


def times(r, flops, link, n=(32, 8)):
    a, b = n
    matmuls = 5 * 2 * r * 4096 * 16384 / flops
    weights = 2 * 2 * 4096 * 16384
    result = 2 * 2 * r * 4096

    def reduce(n, size):
        return 2 * (n - 1) / n * size / link

    return {
        "copies": matmuls,
        "data": matmuls / (a * b) + reduce(a * b, weights),
        "tensor": matmuls / (a * b) + reduce(a * b, result),
        "both": matmuls / (a * b) + reduce(b, result / a) + reduce(a, weights / b),
    }


def best(r, flops, link):
    all_times = times(r, flops, link)
    return min(all_times, key=all_times.get)


on_256 = {
    f"{links} links, {r:,} rows": best(r, *machine)
    for links, machine in (("fast", (200e12, 100e9)), ("slow", (800e12, 10e9)))
    for r in (1_024, 12_288, 524_288)
}

# %% the gradients of one matrix alone exercise="4.7" score=0.8333 diagnoses=["as-on-8-by-32"] near=["all-of-the-weights", "as-on-eight"]
fastest = {
    f"{machine}, {r:,} rows": min(layouts, key=lambda name: seconds(name, r, machine))
    for r in (1_024, 65_536, 524_288)
    for machine in MACHINES
}


def times(r, flops, link, n=(32, 8)):
    a, b = n
    matmuls = 5 * 2 * r * 4096 * 16384 / flops
    weights = 2 * 4096 * 16384
    result = 2 * r * 4096

    def reduce(n, size):
        return 2 * (n - 1) / n * size / link

    return {
        "copies": matmuls,
        "data": matmuls / (a * b) + reduce(a * b, weights),
        "tensor": matmuls / (a * b) + reduce(a * b, result),
        "both": matmuls / (a * b) + reduce(b, result / a) + reduce(a, weights / b),
    }


def best(r, flops, link):
    all_times = times(r, flops, link)
    return min(all_times, key=all_times.get)


on_256 = {
    f"{links} links, {r:,} rows": best(r, *machine)
    for links, machine in (("fast", (200e12, 100e9)), ("slow", (800e12, 10e9)))
    for r in (1_024, 12_288, 524_288)
}


# %% whole buffers in each step, and two in an all-reduce exercise="4.2" score=0 diagnoses=["whole-buffers", "unanswered"] near=["block-for-buffer", "whole-buffer-twice", "block-and-reduced-once"]
def sent(kind, n, size):
    if kind == "all-reduce":
        return 2 * size
    return size if kind == "collective-permute" else (n - 1) * size


# %% the buffer of an all-reduce twice exercise="4.3" score=0.25 diagnoses=["reduced-twice", "unanswered"] near=["sent", "counted"]
moved = {
    "centred": 56,
    "written_out": 56,
    "nested": 120,
    "same_weights": 1024,
    "other_weights": 5120,
    "until_small": "unknown",
}


# %% a width without the number of devices exercise="4.5" score=0 diagnoses=["unanswered", "same-for-every-n"] near=["n-left-out", "reduced-once"]
def width(n, flops, link):
    return flops / link


# %% whole buffers in the ring, and few digits exercise="4.5" score=0 diagnoses=["all-rows", "whole-buffers", "flops-over-link", "too-few-digits", "other-prediction"] near=["n-left-out"]
def rows(n, flops, link):
    return 2 * (n - 1) * 2 * flops / (6 * link)


def width(n, flops, link):
    return 2 * (n - 1) * 2 * flops / link * n / 4


on_machines = {
    "rows, TPU v5e": 1970,
    "rows, H100 100G Ethernet": 8 * 46200,
    "width, TPU v5e": 14000,
    "width, H100 NVLink": 8 * 7690,
}


# %% both pass whole buffers on exercise="4.6" score=0 diagnoses=["n-in-one-and-reduced-once", "all-in-each-step-of-both"] near=["all-in-each-step", "all-of-the-result-in-each-step", "n-in-one"]
def same_bytes(d, f, n):
    return d * (n - 1) / n


def faster(rows, d, f, n, flops, link):
    gather = 2 * rows * d * f / flops + (n - 1) * 2 * d * f / link
    add_up = 2 * rows * d * f / n / flops + 2 * (n - 1) * 2 * rows * f / link
    return "gather" if gather < add_up else "add up"


# %% the slips of moved on sixteen devices exercise="4.3" score=0.125 diagnoses=["one-loop-forgotten", "its-block"]
moved = {
    "centred": 28,
    "written_out": 28,
    "nested": 28,
    "same_weights": 128,
    "other_weights": 640,
    "until_small": "unknown",
}
on_sixteen = {"centred": 52.5, "nested": 52.5, "same_weights": 120, "other_weights": 600}


# %% one character for each device exercise="4.1" score=0.6667 diagnoses=["other-result"]
def kinds(text):
    found = []
    for line in text.splitlines():
        if " = " not in line:
            continue
        right = line.split(" = ", 1)[1]
        opcode = re.search(r"(?:^|\s|\))\s*([a-z][\w-]*)\(", right)
        if opcode:
            name = opcode[1].removesuffix("-start")
            if name in KINDS:
                found.append(name)
    return found


def bytes_of(type):
    total = 0
    for element, sizes in re.findall(r"(\w+)\[([\d,]*)\]", type):
        total += ELEMENT[element] * math.prod(int(s) for s in sizes.split(",") if s)
    return total


def group_size(line):
    if match := re.search(r"replica_groups=\{\{([\d,]*)\}", line):
        return (len(match[1]) + 1) // 2
    if match := re.search(r"replica_groups=\[\d+,(\d+)\]", line):
        return int(match[1])
    mesh, axes = re.search(r"replica_groups=mesh\[(.*?)\] \{(.*?)\}", line).groups()
    sizes = dict(re.findall(r"'(\w+)'=(\d+)", mesh))
    return math.prod(int(sizes[name]) for name in re.findall(r"'(\w+)'", axes))


# %% equal arrays of a tuple once exercise="4.1" score=0.6667 diagnoses=["other-result"]
def kinds(text):
    found = []
    for line in text.splitlines():
        if " = " not in line:
            continue
        right = line.split(" = ", 1)[1]
        opcode = re.search(r"(?:^|\s|\))\s*([a-z][\w-]*)\(", right)
        if opcode:
            name = opcode[1].removesuffix("-start")
            if name in KINDS:
                found.append(name)
    return found


def bytes_of(type):
    total = 0
    for element, sizes in set(re.findall(r"(\w+)\[([\d,]*)\]", type)):
        total += ELEMENT[element] * math.prod(int(s) for s in sizes.split(",") if s)
    return total


def group_size(line):
    if match := re.search(r"replica_groups=\{\{([\d,]*)\}", line):
        return len(match[1].split(","))
    if match := re.search(r"replica_groups=\[\d+,(\d+)\]", line):
        return int(match[1])
    mesh, axes = re.search(r"replica_groups=mesh\[(.*?)\] \{(.*?)\}", line).groups()
    sizes = dict(re.findall(r"'(\w+)'=(\d+)", mesh))
    return math.prod(int(sizes[name]) for name in re.findall(r"'(\w+)'", axes))


# %% n divides d exercise="4.6" score=0.5 diagnoses=["n-in-one-and-reduced-once"] near=["n-in-one"]
def same_bytes(d, f, n):
    return d / n


def faster(rows, d, f, n, flops, link):
    share = (n - 1) / n
    gather = 2 * rows * d * f / flops + share * 2 * d * f / link
    add_up = 2 * rows * d * f / n / flops + 2 * share * 2 * rows * f / link
    return "gather" if gather < add_up else "add up"
