// Elements that are looked up: one invocation for each texel of the output. `chosen` gives the value of an element by its
// number in the output's own order.

fn each_texel(at: vec4<i32>) {
    var value = vec4<f32>();
    for (var k = 0; k < min(4, p.output.channels - at.w * 4); k++) {
        value[k] = chosen(index_of(p.output, at.x, at.y, at.z, at.w * 4 + k));
    }
    store(at.x, at.y, at.z, at.w, value);
}
