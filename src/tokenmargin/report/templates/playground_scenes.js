// Guided scenes: figures of [M], a kink and a mixed limit, which its pictures do not show. Data as in papers/maxmargin/toys.py.
const token = (x, y, score) => ({ x, y, score });
const input = (label, ...tokens) => Object.assign(tokens.map((one) => token(...one)), { label });
const SCENES = [
  {
    name: "Two answers", view: 1.8, starts: [[0, -1], [0.4, 0.6], [-0.7, -0.3]],
    inputs: [input(1, [-0.1, 1, 1], [1, 0, 0.9], [0, 0, 0])],
    words: "[M, Fig. 1(b)] One input of three tokens. Training can end at the best token (score 1) or at the second best "
      + "(0.9): which one depends on the start alone. Drag a diamond across the border of the two colours. Then drag the "
      + "token of score 0 towards the other two: the margin shrinks.",
  },
  {
    name: "The head learns too", view: 3, starts: [[0, -1]], joint: [-1, 0],
    inputs: [input(1, [0, 0, 0], [1, 1, 0]), input(-1, [0, 0, 0], [1, -1, 0]), input(1, [0, 0, 0], [0.5, 1, 0])],
    words: "[M, Fig. 3(a)] The vector v that scores tokens is trained with p, each at the same speed; scores in the table "
      + "play no role. v (dashed) goes to the max-margin classifier of the tokens that p (solid) comes to select.",
  },
  {
    name: "Two limits under one assumption", view: 4.2, starts: [[0, 2], [4, -1]],
    inputs: [input(1, [0, 0, 0], [1, 0, 1]), input(1, [0, 0, 0], [-2, 3, 1])],
    words: "[M, Fig. 8] Two inputs of two tokens, and two limits: (1, 1), which selects the better token of both, and "
      + "(1, 0), which selects the worse token of the second input, because nothing near it pulls back.",
  },
  {
    name: "A kink", view: 2.4, starts: [[-1.5, -1.5], [1.8, -0.5]], bend: { at: 0.5, by: 3 },
    inputs: [input(1, [1, 0, 1], [-1, 0, -1]), input(1, [0.5, 1, 0.4], [0, -1, -0.4])],
    words: "Behind attention stands a ReLU: an input that attends to the score z is worth z - 3 max(0, z - 0.5). The "
      + "first input meets that kink at z = 0.5, where p turns and slides along it, held from both sides, while the "
      + "second input drives it to infinity. Raise the score 0.4 to 1: both inputs are held, and p comes to rest.",
  },
  {
    name: "Half of it stays finite", view: 2.4, starts: [[1.5, -1.5], [-1.5, 0.5]],
    inputs: [input(1, [1, 0, 1], [-1, 0, -1]), input(1, [1, 0, -0.5], [-1, 0, 1]), input(1, [0, 1, 1], [0, -1, 0])],
    words: "Two inputs ask for opposite directions of the first coordinate, so it comes to rest between them; the third "
      + "input drives the second coordinate to infinity. Such a limit is mixed: finite log-odds in two inputs, a "
      + "selection in the third.",
  },
];
