// The quizzes: compares a typed number with the answer and with the likely wrong numbers, which handout/site/quizzes.py computes.
"use strict";
document.addEventListener("DOMContentLoaded", () => {
  for (const form of document.querySelectorAll(".quiz form")) {
    const { answer, because, hints, within } = form.dataset, field = form.querySelector("input"), verdict = form.querySelector(".verdict");
    const judge = (text) => {
      const plain = text.replace(/[,_\s]/g, "").replace("−", "-"), number = Number(plain);
      if (!plain || Number.isNaN(number)) return [false, "Type a number, such as 1,200 or 1.2e15."];
      if (Math.abs(number - answer) <= within * answer) return [true, `Right. ${because}`];
      const hint = JSON.parse(hints).find(([wrong]) => wrong === number);
      return [false, `Not yet. ${hint ? hint[1] : number > Number(answer) ? "The answer is smaller." : "The answer is larger."}`];
    };
    form.querySelector(".try").hidden = false;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const [right, words] = judge(field.value);
      field.setAttribute("aria-invalid", String(!right));
      verdict.className = right ? "verdict right" : "verdict";
      verdict.textContent = words;
    });
  }
});
