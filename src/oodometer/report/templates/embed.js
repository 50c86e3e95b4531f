(() => {
  "use strict";
  // With `ast`, expressions are interpreted instead of compiled, so the page can forbid eval.
  const options = {
    actions: false,
    ast: true,
    defaultStyle: false,
    logLevel: 1, // errors only
    mode: "vega-lite",
    renderer: "svg",
    tooltip: { disableDefaultStyle: true }, // the style of the page applies
  };
  const draw = (box) => {
    const spec = JSON.parse(document.getElementById(box.dataset.chart).textContent);
    vegaEmbed(box, spec, options).catch((error) => {
      console.error(error);
      box.textContent = "This chart could not be drawn; its numbers are in the tables.";
    });
  };
  for (const box of document.querySelectorAll("[data-chart]")) {
    // A chart in a closed box has no width, so it is drawn when the box is opened.
    const folded = box.closest("details:not([open])");
    if (folded) folded.addEventListener("toggle", () => draw(box), { once: true });
    else draw(box);
  }
  // A link to a heading opens its box.
  const unfold = () => {
    const heading = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
    const folded = heading && heading.closest("details:not([open])");
    if (folded) folded.open = true;
  };
  addEventListener("hashchange", unfold);
  unfold();
})();
