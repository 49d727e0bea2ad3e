// A convolution along the last dimension of [batch, channels, width], whose texels hold four neighbours of one channel:
// one invocation for each texel of the output.
//
//   weights_0: [output channels][kernel][own.slices], four input channels of the group each
//   weights_1: the bias, four output channels each

struct Own {
    kernel: i32, stride: i32, dilation: i32, left: i32,
    group_inputs: i32, group_outputs: i32, slices: i32,
}

// The input's elements of a channel at four places, 0 where there are none.
fn neighbours(b: i32, channel: i32, x: vec4<i32>) -> vec4<f32> {
    var value = vec4<f32>();
    for (var k = 0; k < 4; k++) {
        if (x[k] >= 0 && x[k] < p.input_0.channels) {
            value[k] = element_0(b, 0, channel, x[k]);
        }
    }
    return value;
}

fn each_texel(at: vec4<i32>) {
    let from_channel = at.z / p.own.group_outputs * p.own.group_inputs;
    var sum = vec4<f32>(weights_1(at.z / 4)[at.z % 4]);
    for (var k = 0; k < p.own.kernel; k++) {
        let x = (vec4<i32>(0, 1, 2, 3) + at.w * 4) * p.own.stride + k * p.own.dilation - p.own.left;
        for (var c = 0; c < p.own.group_inputs; c++) {
            let weight = weights_0((at.z * p.own.kernel + k) * p.own.slices + c / 4)[c % 4];
            sum += weight * neighbours(at.x, from_channel + c, x);
        }
    }
    store(at.x, at.y, at.z, at.w, finish(sum));
}
