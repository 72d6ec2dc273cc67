// How old is this page? Only where it is looked at can that be known; nothing is green until it is known to be young.
(() => {
  const told = document.getElementById("age");
  const [asOf, oldAfter, every] = ["asOf", "oldAfter", "every"].map((name) => (told.dataset[name] ? Number(told.dataset[name]) : null));
  const title = document.title;
  const span = (ms) => (ms < 120000 ? `${Math.round(ms / 1000)} s` : ms < 7200000 ? `${Math.round(ms / 60000)} min` : ms < 172800000 ? `${Math.round(ms / 3600000)} h` : `${Math.round(ms / 86400000)} days`);
  const at = asOf === null ? "" : new Date(asOf).toISOString().slice(0, 19).replace("T", " ");
  const made = every === null ? "" : ` It is made every ${span(every)}.`;
  const told_as = (kind, text) => {
    if (told.textContent !== text) told.textContent = text;
    told.className = kind;
    document.documentElement.classList.toggle("young", kind === "young");
    document.title = kind === "young" ? title : `OLD: ${title}`;
  };
  const judge = () => {
    const age = Date.now() - asOf;
    if (asOf === null) told_as("old", "Nothing was read of any group: this page says nothing of now.");
    else if (age < -oldAfter) told_as("old", `By this device's clock ${at} is ${span(-age)} ahead: whether this page is of now cannot be told.`);
    else if (age > oldAfter) told_as("old", `OLD PAGE: true ${span(age)} ago, at ${at}.${made} Nothing below is of now: look whether what makes it still runs.`);
    else told_as("young", `True ${span(Math.max(age, 0))} ago, at ${at}.${made}`);
  };
  judge();
  setInterval(judge, 5000);
})();
