// Up to five tensors behind each other along the channels: one invocation for each texel of a range of the output's
// slices. `parts` gives the value of a texel. A part that does not begin or end with a slice shares a texel with its
// neighbours, and each texel is written once.

struct Own {
    first: i32, slices: i32,                                               // the range
    start_0: i32, start_1: i32, start_2: i32, start_3: i32, start_4: i32,  // the parts' first channels in the output
}

fn each_invocation(group: vec3<u32>, groups: vec3<u32>, local: u32) {
    let positions = p.output.height * p.output.width * p.output.batch;
    let texel = serial(group, groups, local, 64u);
    if (texel >= positions * p.own.slices) {
        return;
    }
    let at = texel_place(p.output, texel + positions * p.own.first);
    store(at.x, at.y, at.z, at.w, finish(parts(at)));
}
