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
  for (const box of document.querySelectorAll("[data-chart]")) {
    const spec = JSON.parse(document.getElementById(box.dataset.chart).textContent);
    vegaEmbed(box, spec, options).catch((error) => {
      console.error(error);
      box.textContent = "This chart could not be drawn; its numbers are in the tables.";
    });
  }
})();
