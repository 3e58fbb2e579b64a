import axios from "axios";
import axiosRetry from "axios-retry";

axiosRetry(axios, { retries: 1 });
for (let i = 0; i < 4; i++) await axios.get(process.argv[2]);
