// The card of a heat map cell, tables that answer the arrow keys, the theme, and loading maps when they come into view.

const LABELS = {
  max_abs: "max abs", scaled_rms: "/ RMS", scaled_p999: "/ P99.9", rmse: "RMSE", sqnr_db: "SQNR dB", cosine: "cosine",
  norm_ratio: "norm ratio", over_bound: "over bound", bound: "bound", would_pass: "would pass", worst_got: "worst got",
  worst_ref: "golden there",
};

function element(name, text, style) {
  const node = document.createElement(name);
  node.textContent = text;
  if (style) node.className = style;
  return node;
}

// The same spelling of what cannot be seen as in the rest of the page.
function visible(text) {
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufdd0-\ufdef\ufffe\uffff]|\p{Surrogate}/gu, (sign) => {
    const code = sign.codePointAt(0);
    return code < 256 ? "\\x" + code.toString(16).padStart(2, "0") : "\\u" + code.toString(16).padStart(4, "0");
  });
}

function short(value) {
  if (value === null || value === undefined) return "–";
  if (Number.isInteger(value) && Math.abs(value) < 1e9) return String(value).replace(/\B(?=(\d{3})+$)/g, "\u202f");
  const size = Math.abs(value);
  return size >= 1e-3 && size < 1e5 ? String(Number(value.toPrecision(4))) : value.toExponential(2).replace("e+", "e");
}

function stateOf(seen, record) {
  if (seen.absent || seen.kind === "missing") return ["warn", "Missing: the device gave no such layer"];
  if (seen.kind === "hidden") return ["warn", "Not observable: neither equal nor different"];
  if (seen.kind === "nonfinite") {
    const count = (kind) => short((record && record[kind]) || 0);
    return ["bad", record ? `Not finite: ${count("nan")} NaN, ${count("pos_inf")} +Inf, ${count("neg_inf")} −Inf` : "Not finite"];
  }
  if (seen.fails) return ["bad", seen.introduced ? "First deviating layer: beyond its bound" : "Beyond its bound, inherited"];
  if (seen.canonical) return ["good", "Same bits as the canonical"];
  if (seen.kind === "golden") return ["good", "No difference from the golden"];
  if (seen.kind === "unknown" && (!record || record.status === "not_compared")) return ["warn", "Not compared"];
  return ["good", "Within its bound, bits of its own"];
}

function fillCard(device, layer, seen, record, words) {
  const [style, state] = stateOf(seen, record);
  const facts = document.createElement("dl");
  const fact = (label, value, full) => {
    facts.append(element("dt", label), element("dd", value, full ? "full" : ""));
  };
  if (record && !["hidden", "missing"].includes(seen.kind)) {
    for (const [key, label] of Object.entries(LABELS)) fact(label, short(record[key]));
    for (const part of ["introduced", "inherited"]) {
      if (record[part + "_max_abs"] !== null) fact(part, short(record[part + "_max_abs"]));
    }
    if (record.count !== null) fact("worst index", `${short(record.worst_index)} of ${short(record.count)}`, true);
  }
  if (record && record.digest) fact("digest", record.digest, true);
  if (record && record.canonical_digest && record.digest !== record.canonical_digest) fact("canonical", record.canonical_digest, true);
  if (record && record.base_digest && record.base_digest !== record.digest) fact("base", record.base_digest, true);
  if (record && record.paired_by) fact("paired by", `${visible(record.paired_by)}, confidence ${short(record.confidence)}`, true);
  if (record && record.covers) fact("covers", visible(record.covers.split("\n").join(", ")), true);
  const what = [layer.op, layer.dtype, layer.shape].filter(Boolean).map(visible).join(" · ");
  const chip = SETUP.chips[device] ? `${device} (${SETUP.chips[device]})` : device;
  CARD.replaceChildren(
    element("h4", visible(layer.layer)), element("div", `${what} · layer ${layer.index}`, "sub"),
    element("div", visible(chip), "sub"), element("div", state, "state " + style), facts,
  );
  const why = words || (record && record.reason);
  if (why) CARD.append(element("div", visible(why), "why"));
  CARD.hidden = false;
}

function placeCard(x, above, below) {
  const { offsetWidth: width, offsetHeight: height } = CARD;
  const left = Math.max(12, Math.min(x - width / 2, document.documentElement.clientWidth - width - 12));
  const top = below + height < window.innerHeight ? below : Math.max(8, above - height - 8);
  Object.assign(CARD.style, { left: left + "px", top: top + "px" });
}

function keepInView(y, tall) {
  if (y < 40 || y + tall > window.innerHeight - 40) window.scrollBy({ top: y - window.innerHeight / 2, behavior: "instant" });
}

// --- maps: read when they come into view --------------------------------------------------------------------------
const maps = new Map();

function openMap(host) {
  const number = Number(host.dataset.case);
  if (maps.has(number)) return;
  maps.set(number, null);
  const absent = () => host.replaceChildren(element("p", partFile(number) + " is absent: keep the folder report/ whole.", "loading"));
  ask(String(number), (data) => maps.set(number, new HeatMap(host, data)), absent);
}

const hosts = [...document.querySelectorAll(".map")];
const watcher = new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting) { watcher.unobserve(entry.target); openMap(entry.target); }
}, { rootMargin: "600px" });
hosts.forEach((host) => watcher.observe(host));

function redraw(sorted) {
  for (const map of maps.values()) {
    if (!map) continue;
    if (sorted) map.sort();
    map.draw();
    map.close();
  }
}

for (const button of document.querySelectorAll(".choice button")) {
  button.addEventListener("click", () => {
    Object.assign(view, button.dataset);
    for (const other of button.parentElement.children) other.setAttribute("aria-pressed", String(other === button));
    redraw(true);
  });
}

let width = window.innerWidth;
window.addEventListener("resize", () => { if (window.innerWidth !== width) { width = window.innerWidth; redraw(false); } });
window.addEventListener("scroll", () => {
  if (!hosts.some((host) => host.matches(":focus, :hover"))) CARD.hidden = true;
}, { passive: true });

// --- theme ----------------------------------------------------------------------------------------------------------
const root = document.documentElement;
const toggle = document.getElementById("theme");
const THEMES = ["system", "light", "dark"];

function setTheme(theme) {
  if (theme === "system") delete root.dataset.theme; else root.dataset.theme = theme;
  toggle.textContent = "Theme: " + theme;
  toggle.setAttribute("aria-pressed", String(theme !== "system"));
  redraw(false);
}

function remembered() {
  try { return THEMES.find((theme) => theme === localStorage.getItem("lockstep-theme")) || "system"; } catch { return "system"; }
}

toggle.hidden = false;
toggle.addEventListener("click", () => {
  const theme = THEMES[(THEMES.indexOf(root.dataset.theme || "system") + 1) % THEMES.length];
  try { localStorage.setItem("lockstep-theme", theme); } catch { /* a private window forgets; nothing is lost */ }
  setTheme(theme);
});
setTheme(remembered());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redraw(false));

// Paper is white: draw every map at hand in the light theme while printing.
window.addEventListener("beforeprint", () => {
  if (SETUP.inline) hosts.forEach(openMap);
  root.dataset.theme = "light";
  redraw(false);
});
window.addEventListener("afterprint", () => setTheme(remembered()));

// --- tables that answer the arrow keys ------------------------------------------------------------------------------
for (const table of document.querySelectorAll("table[data-arrows]")) {
  const rows = [...table.querySelectorAll("tbody tr")].map((row) => [...row.querySelectorAll("a.cell, td[tabindex]")]);
  rows.flat().forEach((cell, position) => { cell.tabIndex = position ? -1 : 0; });
  table.addEventListener("keydown", (event) => {
    const line = rows.findIndex((cells) => cells.includes(event.target));
    if (line < 0) return;
    const place = rows[line].indexOf(event.target);
    const to = {
      ArrowRight: [line, place + 1], ArrowLeft: [line, place - 1], ArrowDown: [line + 1, place], ArrowUp: [line - 1, place],
      Home: [line, 0], End: [line, rows[line].length - 1],
    }[event.key];
    if (!to) return;
    event.preventDefault();
    const cell = (rows[to[0]] || [])[to[1]];
    if (!cell) return;
    event.target.tabIndex = -1;
    cell.tabIndex = 0;
    cell.focus();
  });
}

// A link to folded details opens them.
function unfold() {
  const target = /^#c\d+d\d+$/.test(location.hash) && document.querySelector(location.hash);
  if (target) { target.open = true; target.scrollIntoView({ block: "center", behavior: "instant" }); target.querySelector("summary").focus({ preventScroll: true }); }
}
window.addEventListener("hashchange", unfold);
unfold();
