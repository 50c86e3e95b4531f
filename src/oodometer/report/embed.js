(() => {
  "use strict";
  // `ast` has expressions interpreted, not compiled, so that the page can forbid eval.
  const options = {
    actions: false,
    ast: true,
    defaultStyle: false,
    logLevel: 1, // errors alone
    mode: "vega-lite",
    renderer: "svg",
    tooltip: { disableDefaultStyle: true }, // the page has its own, in its colours
  };
  for (const box of document.querySelectorAll("[data-chart]")) {
    const spec = JSON.parse(document.getElementById(box.dataset.chart).textContent);
    vegaEmbed(box, spec, options).catch((error) => {
      console.error(error);
      box.textContent = "This chart could not be drawn; its numbers are in the tables.";
    });
  }
})();
