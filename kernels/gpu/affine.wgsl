// Elements moved by an affine map of indices: one invocation for each texel of the output, which reads its elements one
// by one. `source` gives the number of the input's element for the number of an output's, or -1 for `value`.

struct Own {
    value: f32,
}

fn each_texel(at: vec4<i32>) {
    var value = vec4<f32>(p.own.value);
    for (var k = 0; k < 4; k++) {
        let c = at.w * 4 + k;
        if (c < p.output.channels) {
            let number = source(index_of(p.output, at.x, at.y, at.z, c));
            if (number >= 0) {
                value[k] = at_0(number);
            }
        }
    }
    store(at.x, at.y, at.z, at.w, value);
}
