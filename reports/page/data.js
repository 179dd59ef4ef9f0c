"use strict";
// The data behind the page. A small run has it all in the page; of a large one the map of a case and the numbers of a
// device lie in files of their own, added as scripts when they are asked for: a page opened from disk may not fetch.

const SETUP = JSON.parse(document.getElementById("setup").textContent);
const arrived = new Map();  // key -> data
const waiting = new Map();  // key -> callbacks of a file on its way
const partFile = (key) => "data/case-" + (SETUP.shared[key] || key) + ".js";

function lockstepPart(key, data) {
  arrived.set(key, data);
  for (const { done } of answered(key)) done(data);
}

// Everybody who waits for a file, once: it is here, or it is not.
function answered(key) {
  const callbacks = waiting.get(key) || [];
  waiting.delete(key);
  return callbacks;
}

// Calls `done` with the data, at once where it is here already; `absent` when the file is not there.
function ask(part, done, absent) {
  const key = SETUP.shared[part] || part;
  if (arrived.has(key)) { done(arrived.get(key)); return; }
  if (SETUP.inline) {
    lockstepPart(key, JSON.parse(document.getElementById("data-" + key).textContent));
    done(arrived.get(key));
    return;
  }
  if (waiting.has(key)) { waiting.get(key).push({ done, absent }); return; }
  waiting.set(key, [{ done, absent }]);
  const script = document.createElement("script");
  script.src = partFile(key);
  script.onerror = () => { for (const { absent: tell } of answered(key)) tell(); };
  document.head.append(script);
}

// A column that says one thing all along says it once.
const at = (column, place) => column.length === 1 ? column[0] : column[place];

function row(columns, place) {
  return Object.fromEntries(Object.entries(columns).map(([name, column]) => [name, at(column, place)]));
}

// What the map knows of one cell: its class of colour, and its marks (reports/cells.py).
function look(cells, place) {
  const [kind, marks] = [cells[2 * place], cells[2 * place + 1]];
  if (kind === ".") return { kind: "missing", absent: true, canonical: false, fails: false, introduced: false };
  const bits = parseInt(marks, 16);
  return {
    kind: SETUP.classes[parseInt(kind, 16)], absent: false,
    canonical: Boolean(bits & 1), fails: Boolean(bits & 2), introduced: Boolean(bits & 4),
  };
}

// How loud a cell is: first deviating, failing or not finite, not known, agreeing.
function rankOf(seen) {
  if (seen.introduced) return 0;
  if (seen.fails || seen.kind === "nonfinite") return 1;
  return ["hidden", "missing", "unknown"].includes(seen.kind) ? 2 : 3;
}
