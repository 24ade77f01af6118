"use strict";

/** The page: its parts, and the link that holds the state of the one that is shown. */
const page = (() => {
  const {html} = drawing;
  const parts = {layout: layoutPart, reshard: reshardPart, matmul: matmulPart, transformer: transformerPart};

  const LESSONS = {
    layout: ["01_sharding_basics", "Notebook 01"], reshard: ["02_computation_follows_data", "Notebook 02"],
    matmul: ["06_shard_map_matmul", "Notebook 06"], transformer: ["08_neural_networks", "Notebook 08"],
  };

  /** Fill an element with the playground. */
  function start(root) {
    const tabs = html("nav", {class: "tabs", "aria-label": "Parts of the playground"});
    const note = html("p", {class: "refusal", role: "alert"});
    const host = html("div", {class: "part"});
    const share = controls.copyButton("Copy a link to this", () => location.href);
    root.replaceChildren(tabs, note, host);
    let shown = null;
    let written = "";

    const show = () => {
      if (location.hash === written && shown) return;
      let state = null;
      note.textContent = "";
      try {
        state = links.decode(location.hash);
        if (state && !parts[state.part]) note.textContent = `This playground has no part called ${state.part}.`;
      } catch (error) {
        if (!(error instanceof layouts.Refusal)) throw error;
        note.textContent = error.message;
      }
      const name = parts[state?.part] ? state.part : "layout";
      open(name, parts[state?.part] ? state.fields : {});
    };

    /** Show a part with some of its fields; the others have their defaults. */
    function open(name, given) {
      const part = parts[name];
      const fields = {...part.defaults, ...Object.fromEntries(Object.entries(given).filter(([field]) => field in part.defaults))};
      tabs.replaceChildren(...Object.entries(parts).map(([other, {title}]) =>
        html("a", {href: links.encode(other, {}), "aria-current": other === name ? "page" : undefined}, title)), share);
      shown?.stop?.();
      host.replaceChildren();
      host.className = `part ${name}-part`;
      const save = () => {
        const told = Object.entries(part.toLink(fields)).filter(([field, value]) => value !== "" || part.defaults[field] !== "");
        written = links.encode(name, Object.fromEntries(told));
        history.replaceState(null, "", written);
      };
      shown = part.build(host, fields, save);
      const [lesson, title] = LESSONS[name];
      host.append(html("p", {class: "lesson"}, "New to this? ", html("a", {href: `course/${lesson}/${lesson}.html`}, title), " explains it, with exercises."));
    }

    addEventListener("hashchange", show);
    let width = root.clientWidth;
    new ResizeObserver(() => {
      if (Math.abs(root.clientWidth - width) < 20) return;
      width = root.clientWidth;
      shown?.draw();
    }).observe(root);
    show();
  }

  return {start, parts, LESSONS};
})();
