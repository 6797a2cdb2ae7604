// Draws the tiles that Python sends. Holds no numbers and no formatting of its own; all text goes in as text, so any
// name is allowed.

function element(tag, className, parent) {
  const node = document.createElement(tag);
  node.className = className;
  parent.append(node);
  return node;
}

function createMeter(label, parent) {
  const meter = element("div", "nl-meter", parent);
  meter.setAttribute("role", "meter");
  meter.setAttribute("aria-label", label);
  meter.setAttribute("aria-valuemin", "0");
  meter.setAttribute("aria-valuemax", "100");
  const high = element("div", "nl-meter-high", meter);
  const low = element("div", "nl-meter-low", meter);
  return (share, text) => {
    meter.hidden = share === null;
    if (share === null) return;
    const percent = share.map((part) => Math.min(100, Math.max(0, 100 * part)));
    low.style.width = `${percent[0]}%`;
    high.style.width = `${percent[1]}%`;
    meter.setAttribute("aria-valuenow", percent[1].toFixed(1));
    meter.setAttribute("aria-valuetext", text);
  };
}

function createTile(tile, parent) {
  const box = element("div", "nl-tile", parent);
  box.dataset.testid = `nl-${tile.key}`;
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", tile.label);
  element("div", "nl-tile-label", box).textContent = tile.label;
  const value = element("div", "nl-tile-value", box);
  const updateMeter = createMeter(tile.label, box);
  const source = element("div", "nl-tile-source", box);
  return (next) => {
    value.textContent = next.value;
    source.textContent = next.source;
    updateMeter(next.share, next.value);
  };
}

function render({ model, el }) {
  const strip = element("section", "nl-strip", el);
  strip.dataset.testid = "nl-strip";
  const title = element("div", "nl-strip-title", strip);
  const list = element("div", "nl-strip-tiles", strip);
  const updaters = new Map();

  function draw() {
    title.textContent = model.get("title");
    strip.setAttribute("aria-label", `Live counters: ${model.get("title")}`);
    for (const tile of model.get("tiles")) {
      if (!updaters.has(tile.key)) updaters.set(tile.key, createTile(tile, list));
      updaters.get(tile.key)(tile);
    }
    strip.dataset.updates = String(Number(strip.dataset.updates ?? 0) + 1);
  }

  draw();
  model.on("change:tiles", draw);
  return () => model.off("change:tiles", draw);
}

export default { render };
