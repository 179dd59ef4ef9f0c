// The layers of one case on one device: read when its details are opened, failing ones first, a page at a time.

const PAGE = 50;
const NUMBERS = ["Scaled error", "Max error", "Introduced", "Inherited", "Bound", "Would pass at"];
const COLUMNS = ["Layer", "Op", "State", ...NUMBERS];

class LayerTable {
  constructor(host, map, columns, line) {
    Object.assign(this, { host, map, columns, line, limit: PAGE, wanted: "" });
    const looks = Array.from({ length: map.count }, (_, place) => look(map.cells[line], place));
    this.ranks = looks.map(rankOf);
    this.order = looks.map((_, place) => place).sort((a, b) => this.ranks[a] - this.ranks[b] || a - b);
    const search = element("input", "");
    Object.assign(search, { type: "search", placeholder: "Part of a layer's name or operator" });
    search.setAttribute("aria-label", "Find layers of " + visible(host.dataset.device));
    search.addEventListener("input", () => { this.wanted = search.value.toLowerCase(); this.limit = PAGE; this.fill(); });
    this.count = element("p", "", "sub");
    this.count.setAttribute("role", "status");
    this.body = document.createElement("tbody");
    this.more = element("button", `Show ${PAGE} more`);
    this.more.type = "button";
    this.more.addEventListener("click", () => { this.limit += PAGE; this.fill(); });
    host.replaceChildren(search, this.count, this.table(), this.more);
    this.fill();
  }

  table() {
    const table = document.createElement("table");
    const head = document.createElement("tr");
    for (const title of COLUMNS) {
      const cell = element("th", title, NUMBERS.includes(title) ? "r" : "");
      cell.scope = "col";
      head.append(cell);
    }
    table.createTHead().append(head);
    table.append(this.body);
    const scroll = element("div", "", "scroll tall");
    scroll.append(table);
    return scroll;
  }

  matches(place) {
    if (!this.wanted) return true;
    const { layer, op } = this.map.layers;
    return `${at(layer, place)} ${at(op, place) || ""}`.toLowerCase().includes(this.wanted);
  }

  fill() {
    const found = this.order.filter((place) => this.matches(place));
    const wrong = found.filter((place) => this.ranks[place] < 2).length;
    this.body.replaceChildren(...found.slice(0, this.limit).flatMap((place) => this.lines_of(place)));
    const shown = Math.min(found.length, this.limit);
    this.count.textContent = `${short(found.length)} of ${short(this.map.count)} layers, ${short(wrong)} of them wrong; showing ${short(shown)}`
      + (this.ranks.some((rank) => rank < 2) ? ", failing ones first." : ", in the order of the model.");
    this.more.hidden = shown === found.length;
  }

  // The numbers, and below them the reason over the whole width: beside them it would be a column nobody sees.
  lines_of(place) {
    const seen = look(this.map.cells[this.line], place);
    const layer = row(this.map.layers, place);
    const record = seen.absent ? null : row(this.columns, place);
    const line = document.createElement("tr");
    const name = document.createElement("td");
    name.append(element("code", visible(layer.layer)), element("span", " #" + layer.index, "sub"));
    const [style, words] = stateOf(seen, record);
    const number = (value) => element("td", record ? short(value) : "–", "r num");
    line.append(
      name, element("td", visible(layer.op || "")), element("td", words, "state " + style),
      number(record && record.scaled_rms), number(record && record.max_abs),
      number(record && record.introduced_max_abs), number(record && record.inherited_max_abs),
      number(record && record.bound), number(record && record.would_pass),
    );
    if (!record || !record.reason) return [line];
    line.className = "above";
    const why = element("td", visible(record.reason), "why");
    why.colSpan = COLUMNS.length;
    const told = element("tr", "", "told");
    told.append(why);
    return [line, told];
  }
}

for (const host of document.querySelectorAll(".layers")) {
  const [number, line] = host.dataset.part.split("-");
  const absent = (key) => () => host.replaceChildren(element("p", partFile(key) + " is absent: keep the folder report/ whole.", "loading"));
  const open = () => {
    if (!host.parentElement.open || host.dataset.read) return;
    host.dataset.read = "yes";
    ask(number, (map) => ask(host.dataset.part, (columns) => new LayerTable(host, map, columns, Number(line)), absent(host.dataset.part)), absent(number));
  };
  host.parentElement.addEventListener("toggle", open);
  open();
}
