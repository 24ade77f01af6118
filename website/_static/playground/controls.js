"use strict";

/** What a reader changes and copies: fields, choices, sliders, the board of axes, and tables. */
const controls = (() => {
  const {html} = drawing;
  let made = 0;

  /** A labelled field for text. `changed(text)` is called at each keystroke. */
  function textField(label, {value = "", hint = "", changed, code = true}) {
    const id = `playground-${made += 1}`;
    const input = html("input", {id, type: "text", value, class: code ? "code" : "", spellcheck: "false", autocomplete: "off",
      autocapitalize: "off", "aria-describedby": hint ? `${id}-hint` : undefined, oninput: () => changed(input.value)});
    return {input, row: html("div", {class: "field"}, html("label", {for: id}, label), input,
      hint ? html("small", {id: `${id}-hint`}, hint) : "")};
  }

  /**
   * A part's results, and above them why its fields are refused.
   *
   * While they are, the last results stay, greyed and out of reach: they would vanish at each half-typed word otherwise.
   *
   * @param {Object<string, Element>} inputs  The fields by name; the one that a refusal is about is marked.
   * @param {Element[]} children  What is filled if the fields are valid.
   */
  function results(inputs, ...children) {
    const refusal = html("p", {class: "refusal", role: "alert", id: `playground-${made += 1}-refusal`});
    const stale = html("p", {class: "stale", hidden: true}, "Until that is mended, this is the result from before:");
    const shown = html("div", {class: "shown"}, children);
    let isFilled = false;

    /** Return what `read` returns, or nothing if it refuses the fields. */
    function attempt(read) {
      let found = null;
      let refused = null;
      try {
        found = read();
      } catch (error) {
        if (!(error instanceof layouts.Refusal)) throw error;
        refused = error;
      }
      refusal.textContent = refused?.message ?? "";
      shown.inert = refused !== null;
      isFilled ||= !refused;
      stale.hidden = !refused || !isFilled;
      for (const [name, input] of Object.entries(inputs)) mark(input, refused?.field === name);
      return found;
    }

    function mark(input, isRefused) {
      const others = (input.getAttribute("aria-describedby") ?? "").split(" ").filter((id) => id && id !== refusal.id);
      input.setAttribute("aria-describedby", [...(isRefused ? [refusal.id] : []), ...others].join(" "));
      input.setAttribute("aria-invalid", isRefused);
    }

    return {element: html("div", {class: "results"}, refusal, stale, shown), attempt};
  }

  /** A labelled choice. `options` are pairs of a value and its words. */
  function choice(label, {value, options, changed}) {
    const id = `playground-${made += 1}`;
    const input = html("select", {id, onchange: () => changed(input.value)},
      options.map(([key, text]) => html("option", {value: key, selected: key === value}, text)));
    return {input, row: html("div", {class: "field"}, html("label", {for: id}, label), input)};
  }

  /** A labelled slider, with its value in words beside it. */
  function slider(label, {min, max, value, inWords, hint = "", changed}) {
    const id = `playground-${made += 1}`;
    const output = html("output", {for: id});
    const show = () => {
      output.textContent = inWords(Number(input.value));
      input.setAttribute("aria-valuetext", output.textContent);
    };
    const input = html("input", {id, type: "range", min, max, step: 1, value, "aria-describedby": hint ? `${id}-hint` : undefined, oninput: () => { show(); changed(Number(input.value)); }});
    show();
    return {input, show, row: html("div", {class: "field slider"}, html("label", {for: id}, label), input, output,
      hint ? html("small", {id: `${id}-hint`}, hint) : "")};
  }

  /** A button that copies a text, and says so. */
  function copyButton(label, text) {
    const button = html("button", {type: "button", class: "copy", onclick: async () => {
      button.textContent = await copy(text()) ? "Copied" : "Press Ctrl+C";
      setTimeout(() => { button.textContent = label; }, 1500);
    }}, label);
    return button;
  }

  /** Copy a text; where a page from disk may not, select it in a field for the reader to copy. */
  async function copy(text) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      const field = html("textarea", {class: "for-copying", "aria-label": "Text to copy"}, text);
      document.body.append(field);
      field.select();
      const done = document.execCommand("copy");
      field.remove();
      return done;
    }
  }

  /** Code, with a button that copies it. */
  function codeBlock(code) {
    return html("div", {class: "code-block"}, html("pre", {tabindex: 0, "aria-label": "Python code"}, html("code", {}, code)),
      copyButton("Copy the code", () => code));
  }

  /** A folded table. */
  function foldedTable(title, heads, rows, open = false) {
    return html("details", {open}, html("summary", {}, title), table(title, heads, rows));
  }

  /** A table that scrolls by itself if it is too wide. */
  function table(title, heads, rows) {
    return html("div", {class: "scroll", tabindex: 0, role: "region", "aria-label": title},
      html("table", {}, html("thead", {}, html("tr", {}, heads.map((head) => html("th", {scope: "col"}, head)))),
        html("tbody", {}, rows.map((row) => html("tr", {}, row.map((cell, i) =>
          html(i ? "td" : "th", i ? {} : {scope: "row"}, cell)))))));
  }

  /**
   * The board: a row for each dimension, and one for unused axes, with the mesh's axes as chips.
   *
   * Chips are dragged with a pointer, or moved with the arrow keys; a click moves a chip one row on.
   *
   * @param {string} label  What the board shows.
   * @param {function(string[][]): void} changed  Called with the axes of each dimension.
   */
  function axesBoard(label, changed) {
    const board = html("div", {class: "board", role: "group", "aria-label": label});
    let rows = [];
    let summed = [];

    /** Show which axes each dimension has; the last row has the unused ones. */
    function show(shape, mesh, spec) {
      const used = shape.map((_, d) => [...(spec.entries[d] ?? [])]);
      const unused = mesh.axes.map((axis) => axis.name).filter((name) => !used.flat().includes(name));
      summed = spec.unreduced;
      rows = [...used, unused];
      const focused = board.contains(document.activeElement) ? document.activeElement.dataset.axis : null;
      board.replaceChildren(...rows.map((names, r) => {
        const title = r < shape.length ? `dim ${r} (size ${shape[r]})` : names.some((name) => summed.includes(name)) ? "unused, or unreduced (Σ)" : "unused";
        return html("div", {class: "board-row", "data-row": r}, html("span", {}, title),
          names.map((name) => chip(name, r, title, layouts.sizeOf(mesh, name))));
      }));
      if (focused) board.querySelector(`[data-axis="${focused}"]`)?.focus();
    }

    function chip(name, row, title, size) {
      const isSummed = row === rows.length - 1 && summed.includes(name);
      const use = isSummed ? "unreduced" : row === rows.length - 1 ? "unused" : `shards ${title}`;
      const button = html("button", {type: "button", class: "chip", "data-axis": name,
        "aria-label": `axis ${name} of size ${size}, ${use}. Arrow keys move it.`,
        onkeydown: (event) => onKey(event, name, row), onpointerdown: (event) => drag(event, button, name, row),
        onclick: (event) => { if (event.detail === 0) move(name, (row + 1) % rows.length); }}, `${name}: ${size}${isSummed ? " Σ" : ""}`);
      return button;
    }

    function onKey(event, name, row) {
      const at = rows[row].indexOf(name);
      const moves = {
        ArrowDown: () => move(name, Math.min(row + 1, rows.length - 1)), ArrowUp: () => move(name, Math.max(row - 1, 0)),
        ArrowLeft: () => move(name, row, at - 1), ArrowRight: () => move(name, row, at + 1),
      };
      if (!moves[event.key]) return;
      event.preventDefault();
      moves[event.key]();
    }

    /** Move an axis to a row: to a place in it, or to its end. */
    function move(name, row, at = Infinity) {
      rows = rows.map((names) => names.filter((other) => other !== name));
      rows[row].splice(Math.max(at, 0), 0, name);
      changed(rows.slice(0, -1));
    }

    function drag(event, button, name, row) {
      if (event.button !== 0) return;
      const from = {x: event.clientX, y: event.clientY};
      button.setPointerCapture(event.pointerId);
      const onMove = (moved) => {
        button.classList.add("dragged");
        button.style.transform = `translate(${moved.clientX - from.x}px, ${moved.clientY - from.y}px)`;
      };
      const onEnd = (end) => {
        button.removeEventListener("pointermove", onMove);
        const wasDragged = Math.hypot(end.clientX - from.x, end.clientY - from.y) > 6;
        button.classList.remove("dragged");
        button.style.transform = "";
        if (end.type === "pointercancel") return;
        if (!wasDragged) return move(name, (row + 1) % rows.length);
        const target = document.elementsFromPoint(end.clientX, end.clientY).find((e) => e.matches?.(".board-row") && board.contains(e));
        if (!target) return;
        const chips = [...target.querySelectorAll(".chip")].filter((other) => other !== button);
        const at = chips.filter((other) => { const box = other.getBoundingClientRect(); return end.clientX > box.left + box.width / 2; }).length;
        move(name, Number(target.dataset.row), at);
      };
      button.addEventListener("pointermove", onMove);
      button.addEventListener("pointerup", onEnd, {once: true});
      button.addEventListener("pointercancel", onEnd, {once: true});
    }

    return {board, show};
  }

  return {textField, results, choice, slider, copyButton, codeBlock, table, foldedTable, axesBoard};
})();
