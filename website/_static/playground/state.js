"use strict";

/**
 * Links that hold a part's state: `#v1/layout?shape=8,4&mesh=x:2,y:4&spec=x,-`.
 *
 * The version comes first, so that a later page can still read an old link.
 */
const links = (() => {
  const VERSION = "v1";

  /** Return the fragment for a part and its fields. */
  function encode(part, fields) {
    const pairs = Object.entries(fields).map(([name, value]) => `${name}=${readable(value)}`);
    return `#${VERSION}/${part}${pairs.length ? "?" : ""}${pairs.join("&")}`;
  }

  /** Escape a value for a fragment, except for the characters that are allowed there. */
  function readable(value) {
    return encodeURIComponent(value).replace(/%(?:2C|3A|2F|3B|3D)/g, decodeURIComponent);
  }

  /**
   * Read a fragment.
   *
   * @returns {?{part: string, fields: Object<string, string>}} Null if it holds no state.
   * @throws {layouts.Refusal} A version that this page does not know, or a text cut off in an escape.
   */
  function decode(fragment) {
    const match = /^#(v\d+)\/(\w+)(?:\?(.*))?$/.exec(fragment);
    if (!match) return null;
    const [, version, part, query = ""] = match;
    if (version !== VERSION)
      throw new layouts.Refusal(`This link was made by another version of the playground (${version}); this one reads ${VERSION}. It starts afresh.`);
    try {
      const pairs = query.split("&").filter(Boolean).map((pair) => {
        const [name, ...value] = pair.split("=");
        return [name, decodeURIComponent(value.join("="))];
      });
      return {part, fields: Object.fromEntries(pairs)};
    } catch {
      throw new layouts.Refusal("This link is incomplete: perhaps its end was cut off. The playground starts afresh.");
    }
  }

  return {encode, decode};
})();
