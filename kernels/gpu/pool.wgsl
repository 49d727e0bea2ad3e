// The largest number or the mean under a window: one texel of the output per invocation.

struct Own {
    kernel_height: i32, kernel_width: i32,
    stride_height: i32, stride_width: i32,
    dilation_height: i32, dilation_width: i32,
    top: i32, left: i32,
    padded_height: i32,  // of the input with its padding
    padded_width: i32,
    counts_padding: i32,
    is_max: i32,
}

@compute @workgroup_size(64) fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let index = serial(group, groups, local, 64u);
    let columns = p.output.width * p.output.batch;
    if (index >= columns * p.output.height * p.output.slices) {
        return;
    }
    let b = index % p.output.batch;
    let x = index % columns / p.output.batch;
    let y = index / columns % p.output.height;
    let slice = index / columns / p.output.height;
    var sum = vec4<f32>();
    var largest = vec4<f32>();
    var count = 0.0;
    var is_first = true;
    for (var ky = 0; ky < p.own.kernel_height; ky++) {
        let above = y * p.own.stride_height + ky * p.own.dilation_height;  // counted from the padding's edge
        let iy = above - p.own.top;
        for (var kx = 0; kx < p.own.kernel_width; kx++) {
            let before = x * p.own.stride_width + kx * p.own.dilation_width;
            let ix = before - p.own.left;
            if (iy >= 0 && iy < p.input_0.height && ix >= 0 && ix < p.input_0.width) {
                let value = load_0(b, iy, ix, slice);
                sum += value;
                let larger = select(max(largest, value), value, no_number(value) | vec4<bool>(is_first));
                largest = select(larger, largest, no_number(largest));
                is_first = false;
                count += 1.0;
            } else if (p.own.counts_padding != 0 && above < p.own.padded_height && before < p.own.padded_width) {
                count += 1.0;
            }
        }
    }
    let result = select(sum / max(count, 1.0), largest, p.own.is_max != 0);
    store(b, y, x, slice, finish(result));
}
