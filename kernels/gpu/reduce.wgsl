// One number for all elements along axes. SHARE invocations, a power of two up to 64, work on one texel of the output:
// each combines every SHARE-th of the texel's values, then pairs of them are combined. `values` gives the four values of a
// step, `combine` joins two, `last` ends.

struct Own {
    steps: i32,
    start: f32,  // what changes nothing when it is combined; may be infinite
    count: f32,  // elements that make one number
}

// shared: fn combined(a, b) = combine(a, b)

fn each_invocation(group: vec3<u32>, groups: vec3<u32>, local: u32) {
    let texel = serial(group, groups, local, 64u) / SHARE;
    let lane = i32(local) % SHARE;
    let is_live = texel < texels(p.output);
    let at = texel_place(p.output, select(0, texel, is_live));
    var sum = vec4<f32>(p.own.start);
    for (var step = lane; step < select(0, p.own.steps, is_live); step += SHARE) {
        sum = combine(sum, values(at, step));
    }
    sum = combined(sum, local);
    if (is_live && lane == 0) {
        store(at.x, at.y, at.z, at.w, last(sum));
    }
}
