// Runs before the page is painted, so that a chosen theme does not flash. Without a choice the system's own counts.
try {
  const chosen = sessionStorage.getItem("attune.theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
} catch {
  // a browser that keeps nothing: the system's theme it is
}
