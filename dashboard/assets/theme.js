// The theme is set before anything is drawn, so that nobody sees the other one first. "auto" is what the system says.
(() => {
  const root = document.documentElement;
  const orders = ["auto", "light", "dark"];
  const stored = () => {
    try {
      return localStorage.getItem("iqgate-theme");
    } catch {
      return null; // a browser that keeps nothing
    }
  };
  const known = stored();
  root.dataset.theme = orders.includes(known) ? known : "auto";
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const show = () => {
      button.textContent = `Theme: ${root.dataset.theme}`;
    };
    show();
    button.addEventListener("click", () => {
      root.dataset.theme = orders[(orders.indexOf(root.dataset.theme) + 1) % orders.length];
      try {
        localStorage.setItem("iqgate-theme", root.dataset.theme);
      } catch {
        // It holds until the page is closed.
      }
      show();
    });
  });
})();
