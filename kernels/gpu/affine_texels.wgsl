// Positions moved by an affine map of indices, with all of their channels: one invocation for each texel of the output.
// `source` gives the number of the input's position for the number of an output's, or -1 for `value`. Positions are
// counted along batch, height and width.

struct Own {
    value: f32,
}

fn each_texel(at: vec4<i32>) {
    let number = source((at.x * p.output.height + at.y) * p.output.width + at.z);
    var value = vec4<f32>(p.own.value);
    if (number >= 0) {
        let row = number / p.input_0.width;
        value = load_0(row / p.input_0.height, row % p.input_0.height, number % p.input_0.width, at.w);
    }
    store(at.x, at.y, at.z, at.w, value);
}
