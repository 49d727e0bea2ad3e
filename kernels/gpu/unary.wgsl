// A function of each element: one invocation for each texel.

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
    store(at.x, at.y, at.z, at.w, finish(load_0(at.x, at.y, at.z, at.w)));
}
