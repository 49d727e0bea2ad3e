// A tensor into its part of a concatenation along the batch, the height or the width: one invocation for each texel of
// the input. Rows of a height that stands for several axes come in blocks, each of which goes to a block of the output.

struct Own {
    batch: i32, y: i32, x: i32,        // where the part begins in the output
    rows: i32, output_rows: i32,       // of a block in the input and in the output
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let texel = serial(group, groups, local, 64u);
    if (texel >= texels(p.input_0)) {
        return;
    }
    let at = texel_place(p.input_0, texel);
    let y = (at.y / p.own.rows) * p.own.output_rows + at.y % p.own.rows + p.own.y;
    store(at.x + p.own.batch, y, at.z + p.own.x, at.w, finish(load_0(at.x, at.y, at.z, at.w)));
}
