// Guided scenes: figures of [M] and two limits that its pictures do not show. Data as in papers/maxmargin/toys.py.
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
    name: "Many tokens, one answer", view: 1.6, starts: [[-1.5, 0], [-0.5, 0], [1, 0]],
    inputs: [
      input(1, [0.774832, -0.230472, 1], [-1.086776, 1.169742, 0.5], [-1.063202, 0.576956, 0.5], [-1.252667, 1.069997, 0.5],
        [-0.476032, -0.252468, 0.5], [-0.549456, -0.770531, 0.5], [-0.38667, -0.341298, 0.5]),
      input(1, [0.688981, -0.068272, 1], [-0.849962, 0.8829, 0.5], [-0.963304, 1.277873, 0.5], [-0.81074, 0.831265, 0.5],
        [-0.493681, -0.598535, 0.5], [-0.412061, -0.477518, 0.5], [-0.411769, -0.520462, 0.5]),
      input(1, [0.942066, 0.010501, 1], [-0.539559, 0.706221, 0.5], [-1.11385, 1.183994, 0.5], [-0.742025, 0.704365, 0.5],
        [-0.594624, -0.234945, 0.5], [-0.609949, -0.595967, 0.5], [-0.713396, -0.277012, 0.5]),
    ],
    words: "[M, Fig. 1(c)] Three inputs; all tokens but one have the same score. Every start goes to the max-margin "
      + "direction of the best tokens. Raise the score of another token in the table: new directions appear.",
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
    name: "Half of it stays finite", view: 2.4, starts: [[1.5, -1.5], [-1.5, 0.5]],
    inputs: [input(1, [1, 0, 1], [-1, 0, -1]), input(1, [1, 0, -0.5], [-1, 0, 1]), input(1, [0, 1, 1], [0, -1, 0])],
    words: "Two inputs ask for opposite directions of the first coordinate, so it comes to rest between them; the third "
      + "input drives the second coordinate to infinity. Such a limit is mixed: finite log-odds in two inputs, a "
      + "selection in the third.",
  },
];
