// Elements moved by an affine map of indices: one invocation for each texel of the output, which reads its elements one
// by one. `source` gives the number of the input's element for the number of an output's, or -1 for `value`.

struct Own {
    value: f32,
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let texel = serial(group, groups, local, 64u);
    if (texel >= texels(p.output)) {
        return;
    }
    let at = texel_place(p.output, texel);
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
