// The theme that was chosen here before; without one the system decides.
try {
  const theme = localStorage.getItem("duly.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // A browser that keeps nothing gets the system's theme.
}
