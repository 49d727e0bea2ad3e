// One number for all elements along axes. SHARE invocations, a power of two up to 64, work on one texel of the output:
// each combines every SHARE-th of the texel's values, then pairs of them are combined. `values` gives the four values of a
// step, `combine` joins two, `last` ends.

struct Own {
    steps: i32,
    start: f32,  // what changes nothing when it is combined; may be infinite
    count: f32,  // elements that make one number
}

var<workgroup> shared_sums: array<vec4<f32>, 64>;

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let texel = serial(group, groups, local, 64u) / SHARE;
    let lane = i32(local) % SHARE;
    let is_live = texel < texels(p.output);
    let at = texel_place(p.output, select(0, texel, is_live));
    var sum = vec4<f32>(p.own.start);
    for (var step = lane; step < select(0, p.own.steps, is_live); step += SHARE) {
        sum = combine(sum, values(at, step));
    }
    if (SHARE > 1) {
        shared_sums[local] = sum;
        for (var half = SHARE / 2; half > 0; half /= 2) {
            workgroupBarrier();
            if (lane < half) {
                shared_sums[local] = combine(shared_sums[local], shared_sums[local + u32(half)]);
            }
        }
        sum = shared_sums[local];
    }
    if (is_live && lane == 0) {
        store(at.x, at.y, at.z, at.w, last(sum));
    }
}
