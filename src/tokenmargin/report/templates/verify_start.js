// The page: each dropped or chosen file is read, checked, and answered with one line.
{
  const verdicts = document.getElementById("verdicts"), input = document.getElementById("file");
  const answer = async (files) => {
    for (const file of files) {
      const line = document.createElement("li");
      line.textContent = `${file.name}: checking ...`;
      verdicts.prepend(line);
      let verdict;
      try { // a byte-order mark, or bytes that are no text, make it no certificate
        const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(await file.arrayBuffer());
        verdict = await globalThis.verifyCertificate(text);
      } catch (problem) {
        verdict = { verified: false, because: "it is no text" };
      }
      line.textContent = `${file.name}: ${verdict.verified ? "verified" : "NOT verified"}: ${verdict.because}.`;
    }
  };
  input.addEventListener("change", () => answer(input.files));
  document.addEventListener("dragover", (event) => event.preventDefault());
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    answer(event.dataTransfer.files);
  });
}
