// The groups of the page, searched where the page is: no network, and text is text.
(() => {
  const most = 50;
  const groups = JSON.parse(document.getElementById("groups").textContent);
  const [text, status, body, count] = ["find-text", "find-status", "find-rows", "find-count"].map((id) => document.getElementById(id));
  const cell = (row, value, kind) => {
    const made = row.insertCell();
    if (kind) made.className = kind;
    made.append(value);
    return made;
  };
  const number = (value) => (value === null ? "unknown" : value.toLocaleString("en"));
  const row = ([name, state, lag, members, address]) => {
    const made = document.createElement("tr");
    const title = document.createElement(address ? "a" : "span");
    title.textContent = name;
    if (address) title.href = address;
    cell(made, title, "wide");
    cell(made, state);
    cell(made, number(lag), "n");
    cell(made, number(members), "n");
    return made;
  };
  const show = () => {
    const wanted = text.value.trim().toLowerCase();
    const found = groups.filter(([name, state]) => (!status.value || state === status.value) && name.toLowerCase().includes(wanted));
    body.replaceChildren(...found.slice(0, most).map(row));
    count.textContent = `${found.length.toLocaleString("en")} of ${groups.length.toLocaleString("en")} groups` + (found.length > most ? `, the first ${most} are shown` : "");
  };
  text.addEventListener("input", show);
  status.addEventListener("change", show);
  document.getElementById("find-form").addEventListener("submit", (event) => event.preventDefault());
  show();
})();
