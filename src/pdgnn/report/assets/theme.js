/* Light or dark: the system's choice, or that of the button, which is remembered. */
"use strict";
const themes = (() => {
const root = document.documentElement, state = document.body.dataset, listeners = [];
const darkly = matchMedia("(prefers-color-scheme: dark)");
function remembered(value) {
  try {
    if (value) localStorage.setItem("pdgnn-theme", value);
    return localStorage.getItem("pdgnn-theme");
  } catch { return null; }
}
function themed(choice) {
  if (choice) root.dataset.theme = choice;
  state.theme = root.dataset.theme || (darkly.matches ? "dark" : "light");
  for (const tell of listeners) tell();
}
document.getElementById("theme").addEventListener("click", () => {
  const other = state.theme === "dark" ? "light" : "dark";
  themed(remembered(other) || other);
});
darkly.addEventListener("change", () => themed());
return {
  listen: (tell) => listeners.push(tell),
  start: () => themed(remembered()),
  lightPrint() { /* for what is drawn by script; style sheets print light by themselves */
    let before;
    addEventListener("beforeprint", () => { before = root.dataset.theme; themed("light"); });
    addEventListener("afterprint", () => { if (before) themed(before); else { delete root.dataset.theme; themed(); } });
  },
};
})();
