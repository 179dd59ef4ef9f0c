// The heat map: chips down, layers across, wrapped into bands that fit the page. One canvas a band; colours are read
// from the legend, so legend and map cannot disagree. All text reaches the page as text nodes.

const CARD = document.getElementById("card");
const view = {};
for (const pressed of document.querySelectorAll('.choice button[aria-pressed="true"]')) Object.assign(view, pressed.dataset);

// The bits of the canonical are a colour of their own, unless the reader asks for the error of every layer.
const colourOf = (seen, mode) => mode === "agree" && seen.canonical ? "canonical" : seen.kind;

function palette() {
  const colours = {};
  for (const swatch of document.querySelectorAll(".sw[data-k]")) {
    const style = getComputedStyle(swatch);
    colours[swatch.dataset.k] = { fill: style.backgroundColor, ink: style.color };
  }
  const body = getComputedStyle(document.body);
  colours.text = body.color;
  colours.ink = getComputedStyle(document.querySelector(".first")).color;
  colours.muted = getComputedStyle(document.querySelector(".legend")).color;
  colours.font = body.fontFamily;
  return colours;
}

class HeatMap {
  constructor(host, data) {
    this.host = host;
    this.data = data;
    this.number = host.dataset.case;
    this.looks = data.cells.map((cells) => Array.from({ length: data.count }, (_, place) => look(cells, place)));
    this.at = { line: 0, place: 0 };
    this.sort();
    host.replaceChildren();
    this.cursor = document.createElement("div");
    this.cursor.className = "cursor";
    this.cursor.hidden = true;
    host.addEventListener("pointermove", (event) => this.point(event));
    host.addEventListener("pointerdown", (event) => this.point(event));
    host.addEventListener("pointerleave", () => { if (document.activeElement !== host) this.close(); });
    host.addEventListener("keydown", (event) => this.key(event));
    host.addEventListener("focus", () => { if (host.matches(":focus-visible")) this.show(); });
    host.addEventListener("blur", () => this.close());
    this.draw();
  }

  seen(line, place) { return this.looks[line][this.columns[place]]; }

  fails(line, place) {
    const seen = this.seen(line, place);
    return seen.fails || seen.kind === "nonfinite";
  }

  // Columns in the order shown: the model's, or failing layers first (first deviating ones before inherited ones).
  sort() {
    this.columns = Array.from({ length: this.data.count }, (_, column) => column);
    const rank = this.columns.map((column) => Math.min(...this.looks.map((seen) => rankOf(seen[column]))));
    if (view.order === "worst") this.columns.sort((a, b) => rank[a] - rank[b] || a - b);
    this.first = new Set(this.columns.filter((column) => rank[column] === 0));
  }

  measure() {
    const width = Math.max(this.host.clientWidth, 200);
    const label = width < 520 ? 64 : 108;
    const wide = Math.floor((width - label) / this.columns.length);
    const cell = Math.max(7, Math.min(wide, 16));
    const across = Math.max(1, Math.floor((width - label) / cell));
    this.box = { width, label, cell, across, tall: 18, top: 12, foot: 15 };
    this.box.bands = Math.ceil(this.columns.length / across);
    this.box.height = this.box.top + this.data.devices.length * this.box.tall + this.box.foot;
  }

  draw() {
    this.measure();
    const colours = palette();
    const bands = [];
    for (let band = 0; band < this.box.bands; band++) bands.push(this.band(band, colours));
    this.host.replaceChildren(...bands, this.cursor);
  }

  band(band, colours) {
    const { width, label, cell, across, tall, top, height } = this.box;
    const canvas = document.createElement("canvas");
    const scale = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    canvas.style.width = width + "px";
    canvas.style.height = height + "px";
    canvas.setAttribute("aria-hidden", "true");
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    pen.textBaseline = "middle";
    pen.fillStyle = colours.text;
    pen.font = "12px " + colours.font;
    this.data.devices.forEach((device, line) => pen.fillText(clipped(pen, device, label - 10), 0, top + line * tall + tall / 2));
    const start = band * across;
    const end = Math.min(start + across, this.columns.length);
    for (let place = start; place < end; place++) {
      const x = label + (place - start) * cell;
      for (let line = 0; line < this.data.devices.length; line++) {
        const seen = this.seen(line, place);
        const kind = colourOf(seen, view.mode);
        paint(pen, x, top + line * tall, cell - 1, tall - 1, kind, colours);
        if (seen.fails && kind !== "nonfinite") {
          const dark = luminance(colours[kind].fill) > 0.3;
          pen.fillStyle = dark ? "#16191d" : "#ffffff";
          pen.fillRect(x + (cell - 1) / 2 - 1.5, top + line * tall + (tall - 1) / 2 - 1.5, 3, 3);
        }
      }
      if (this.first.has(this.columns[place])) triangle(pen, x + (cell - 1) / 2, 2, colours.ink);
      if ((place - start) % 20 === 0) {
        pen.fillStyle = colours.muted;
        pen.font = "10px " + colours.font;
        pen.fillText(String(at(this.data.layers.index, this.columns[place])), x, height - 8);
      }
    }
    return canvas;
  }

  point(event) {
    const box = this.host.getBoundingClientRect();
    const { label, cell, across, tall, top, height, bands } = this.box;
    const band = Math.floor((event.clientY - box.top) / height);
    const line = Math.floor((event.clientY - box.top - band * height - top) / tall);
    const column = Math.floor((event.clientX - box.left - label) / cell);
    const place = band * across + column;
    const inside = band >= 0 && band < bands && line >= 0 && line < this.data.devices.length
      && column >= 0 && column < across && place < this.columns.length;
    if (!inside) { this.close(); return; }
    this.at = { line, place };
    this.show();
  }

  key(event) {
    const last = this.columns.length - 1;
    const { line, place } = this.at;
    const moves = {
      ArrowRight: [line, place + 1], ArrowLeft: [line, place - 1], ArrowDown: [line + 1, place], ArrowUp: [line - 1, place],
      Home: [line, 0], End: [line, last], PageDown: [line, place + this.box.across], PageUp: [line, place - this.box.across],
    };
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key === "Escape") { this.close(); return; }
    let to = moves[event.key];
    if (event.key === "n" || event.key === "p") to = this.nextFailing(event.key === "n" ? 1 : -1);
    if (event.key === "Enter" || event.key === " ") to = [line, place];
    if (!to) return;
    event.preventDefault();
    this.at = {
      line: Math.max(0, Math.min(to[0], this.data.devices.length - 1)),
      place: Math.max(0, Math.min(to[1], last)),
    };
    this.show();
  }

  nextFailing(step) {
    for (let place = this.at.place + step; place >= 0 && place < this.columns.length; place += step) {
      for (let line = 0; line < this.data.devices.length; line++) {
        if (this.fails(line, place)) return [line, place];
      }
    }
    return [this.at.line, this.at.place];
  }

  show() {
    const { label, cell, across, tall, top, height } = this.box;
    const band = Math.floor(this.at.place / across);
    const x = label + (this.at.place % across) * cell;
    const y = band * height + top + this.at.line * tall;
    Object.assign(this.cursor.style, { left: x - 2 + "px", top: y - 2 + "px", width: cell + 3 + "px", height: tall + 3 + "px" });
    this.cursor.hidden = false;
    const box = this.host.getBoundingClientRect();
    const above = box.top + band * height;  // beside the band, so that no chip of this layer is covered
    this.tell(() => placeCard(box.left + x + cell / 2, above, above + height));
    if (document.activeElement === this.host) keepInView(box.top + y, tall);
  }

  // The card: what the map knows at once, the numbers of the device as soon as they are here.
  tell(place) {
    const { at: asked } = this;
    const column = this.columns[asked.place];
    const fill = (record, words) => {
      fillCard(this.data.devices[asked.line], row(this.data.layers, column), this.looks[asked.line][column], record, words);
      place();
    };
    let here = false;
    ask(this.number + "-" + asked.line, (columns) => {
      if (here !== false && (this.at !== asked || this.cursor.hidden)) return;  // the reader is elsewhere by now
      here = true;
      fill(row(columns, column), "");
    }, () => { if (this.at === asked) fill(null, partFile(this.number + "-" + asked.line) + " is absent: keep the folder report/ whole."); });
    if (!here) { here = null; fill(null, "Reading the numbers …"); }
  }

  close() {
    this.cursor.hidden = true;
    CARD.hidden = true;
  }
}

// Names of chips differ at their ends as often as at their beginnings: cut in the middle.
function clipped(pen, text, room) {
  if (text.length < 100 && pen.measureText(text).width <= room) return text;
  const signs = Array.from(text);
  for (let kept = Math.min(signs.length - 1, 60); kept > 1; kept--) {
    const tail = Math.floor(kept / 2);
    const short = signs.slice(0, kept - tail).join("") + "…" + signs.slice(-tail).join("");
    if (pen.measureText(short).width <= room) return short;
  }
  return "…";
}

function luminance(colour) {
  const [red, green, blue] = colour.match(/[\d.]+/g).map((part) => (part / 255) ** 2.2);
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function triangle(pen, x, y, colour) {
  pen.fillStyle = colour;
  pen.beginPath();
  pen.moveTo(x - 4, y);
  pen.lineTo(x + 4, y);
  pen.lineTo(x, y + 7);
  pen.fill();
}

function paint(pen, x, y, w, h, kind, colours) {
  const { fill, ink } = colours[kind];
  pen.fillStyle = fill;
  pen.fillRect(x, y, w, h);
  pen.strokeStyle = pen.fillStyle = ink;
  pen.lineWidth = 1;
  if (kind === "missing") {
    pen.setLineDash([2, 2]);
    pen.strokeRect(x + .5, y + .5, w - 1, h - 1);
    pen.setLineDash([]);
  } else if (kind === "hidden") {
    pen.save();
    pen.beginPath();
    pen.rect(x, y, w, h);
    pen.clip();
    pen.globalAlpha = .6;
    pen.beginPath();
    for (let offset = -h; offset < w + h; offset += 4) { pen.moveTo(x + offset, y + h); pen.lineTo(x + offset + h, y); }
    pen.stroke();
    pen.restore();
  } else if (kind === "nonfinite") {
    const [mx, my] = [x + w / 2, y + h / 2];
    pen.lineWidth = 1.4;
    pen.beginPath();
    pen.moveTo(mx - 2.5, my - 2.5); pen.lineTo(mx + 2.5, my + 2.5);
    pen.moveTo(mx + 2.5, my - 2.5); pen.lineTo(mx - 2.5, my + 2.5);
    pen.stroke();
  } else if (kind === "unknown") {
    pen.font = "600 10px " + colours.font;
    pen.textAlign = "center";
    pen.fillText("?", x + w / 2, y + h / 2 + .5);
    pen.textAlign = "left";
  }
}
